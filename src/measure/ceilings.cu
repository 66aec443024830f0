/* ceilings.cu: what measures a device. One text for CUDA C++ and OpenCL C: the words that differ are
 * defined in front of it (runtime/device/device.h, `load_text`), and so is THREADS.
 *
 * Memory is cut into blocks of 4 x THREADS quads, one for each group; `groups` blocks side by side
 * are a step, and there are `steps` of them. In pass p a group takes the block 97 p on: what it read
 * before is another group's then, so that no first cache has it. */
typedef struct __attribute__((aligned(16))) quad {
  u32 a, b, c, d;
} quad;

#define BLOCK(pass) ((((i64)GROUP + (pass) * 97) % groups) * 4 * THREADS + THREAD)

KERNEL void hn_ceiling_read(MEMORY(from), MEMORY(to), MEMORY(status), i64 groups, i64 steps,
                            i64 passes, i64 never) {
  GLOBAL const quad *x = (GLOBAL const quad *)BEGIN(from);
  u32 sum = 0;
  for (i64 p = 0; p < passes; p++)
    for (i64 s = 0; s < steps; s++) {
      GLOBAL const quad *at = x + s * groups * 4 * THREADS + BLOCK(p);
      const quad q0 = at[0], q1 = at[THREADS], q2 = at[2 * THREADS], q3 = at[3 * THREADS];
      sum += q0.a ^ q0.b ^ q0.c ^ q0.d ^ q1.a ^ q1.b ^ q1.c ^ q1.d;
      sum += q2.a ^ q2.b ^ q2.c ^ q2.d ^ q3.a ^ q3.b ^ q3.c ^ q3.d;
    }
  if (never) ((GLOBAL u32 *)BEGIN(to))[THREAD] = sum;
}

KERNEL void hn_ceiling_copy(MEMORY(from), MEMORY(to), MEMORY(status), i64 groups, i64 steps,
                            i64 passes, i64 never) {
  GLOBAL const quad *x = (GLOBAL const quad *)BEGIN(from);
  GLOBAL quad *y = (GLOBAL quad *)BEGIN(to);
  for (i64 p = 0; p < passes; p++)
    for (i64 s = 0; s < steps; s++) {
      const i64 at = s * groups * 4 * THREADS + BLOCK(p);
      const quad q0 = x[at], q1 = x[at + THREADS], q2 = x[at + 2 * THREADS],
                 q3 = x[at + 3 * THREADS];
      y[at] = q0, y[at + THREADS] = q1, y[at + 2 * THREADS] = q2, y[at + 3 * THREADS] = q3;
    }
}

KERNEL void hn_ceiling_fill(MEMORY(from), MEMORY(to), MEMORY(status), i64 groups, i64 steps,
                            i64 passes, i64 never) {
  GLOBAL quad *y = (GLOBAL quad *)BEGIN(to);
  for (i64 p = 0; p < passes; p++)
    for (i64 s = 0; s < steps; s++) {
      const i64 at = s * groups * 4 * THREADS + BLOCK(p);
      quad q;
      q.a = q.b = q.c = q.d = (u32)p;
      y[at] = q, y[at + THREADS] = q, y[at + 2 * THREADS] = q, y[at + 3 * THREADS] = q;
    }
}

/* A step is eight additions of each thread. */
KERNEL void hn_ceiling_add(MEMORY(from), MEMORY(to), MEMORY(status), i64 groups, i64 steps,
                           i64 passes, i64 never) {
  const float more = (float)groups;
  float x[8];
  for (int k = 0; k < 8; k++) x[k] = (float)(THREAD + k);
  for (i64 p = 0; p < passes; p++)
    for (i64 s = 0; s < steps; s++)
      for (int k = 0; k < 8; k++) x[k] = x[k] + more;
  for (int k = 1; k < 8; k++) x[0] += x[k];
  if (never) ((GLOBAL float *)BEGIN(to))[THREAD] = x[0];
}

/* Numbers from 1 to 2 in size of either sign, of 16 or 32 bits: zeros are computed faster. */
KERNEL void hn_ceiling_noise(MEMORY(from), MEMORY(to), MEMORY(status), i64 groups, i64 steps,
                             i64 bits, i64 mask) {
  GLOBAL u32 *y = (GLOBAL u32 *)BEGIN(to);
  for (i64 s = 0; s < steps; s++) {
    const i64 at = (s * groups + GROUP) * THREADS + THREAD;
    u32 h = (u32)at * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    y[at] = ((h ^ h >> 13) & (u32)mask) | (u32)bits;
  }
}
