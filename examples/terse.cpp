// terse.cpp: terse.c in C++17: compile a model and run it, in as few lines as possible.
//
//     c++ -std=c++17 terse.cpp $(pkg-config --cflags --libs henry) -o terse && ./terse data/digits/model.pt2
#include <henry/henry.hpp>

#include <cstdio>

int main(int argc, char **argv) try {
    std::vector<float> image(64);
    for (size_t k = 0; k < 8; k++) image[8 * k + 4] = 1; // a stroke from top to bottom

    henry::Module module = henry::compile(argc > 1 ? argv[1] : "examples/data/digits/model.pt2").load();
    std::vector<henry::Tensor> outputs = module.run({henry::Tensor::view(image, {1, 1, 8, 8})});

    std::vector<float> probabilities = outputs[0].to_vector<float>();
    for (size_t k = 0; k < probabilities.size(); k++) std::printf("%zu: %5.1f %%\n", k, 100.0 * static_cast<double>(probabilities[k]));
    return 0;
} catch (const henry::Error &error) {
    std::fprintf(stderr, "terse: %s\n", error.what());
    return 1;
}
