"""What Henry compiled, for Python: henry.program runs it with the standard library alone, henry.fx makes a
torch.fx.GraphModule of it. Both read a project that `henry compile MODEL --emit source -o DIR` wrote."""
