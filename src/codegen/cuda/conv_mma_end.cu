  for (int i = 0; i < 4; i++) { /* of each row: 16 (i / 2), and 8 for odd i */
    long long at = m0 + row + i / 2 * 16 + g + i % 2 * 8;
    if (at >= places) continue;
    const long long q2 = at % size2;
    at /= size2;
    const long long q1 = at % size1;
    at /= size1;
    const long long q0 = at % size0, n = at / size0;
    for (int j = 0; j < 8; j++) {
      const long long c = n0 + column + j / 2 * 8 + 2 * t + j % 2, o = group * each + c;
      if (c >= each) continue;
      float x = sums[i / 2][j / 2][i % 2 * 2 + j % 2];
      SUM(bias, o)
      SUM_MORE(residual, n * rn + o * ro + q0 * r0 + q1 * r1 + q2 * r2)
      out[n * on + o * oo + q0 * o0 + q1 * o1 + q2 * o2] = STORE(FINISH(x));
    }
  }
}
