/** Differences of two groups with the intervals that contain the true ones 95 times in 100. */

/** How often an interval contains the true difference. */
export const CONFIDENCE = 0.95;
const Z_95 = 1.959964;

export type Interval = { value: number; low: number; high: number };

/** Wilson's score interval of a share (Journal of the American Statistical Association 22, 1927). */
const wilson = (hits: number, n: number): [low: number, high: number] => {
  const p = hits / n;
  const z2 = Z_95 * Z_95;
  const middle = p + z2 / (2 * n);
  const spread = Z_95 * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
  return [(middle - spread) / (1 + z2 / n), (middle + spread) / (1 + z2 / n)];
};

export type Share = { hits: number; n: number };

/**
 * Returns the difference of two shares, `a` minus `b`, with Newcombe's hybrid score interval (method 10 of
 * Statistics in Medicine 17, 1998); undefined where a group is empty.
 */
export const shareDifference = (a: Share, b: Share): Interval | undefined => {
  if (a.n === 0 || b.n === 0) return undefined;
  const [pa, pb] = [a.hits / a.n, b.hits / b.n];
  const [[la, ha], [lb, hb]] = [wilson(a.hits, a.n), wilson(b.hits, b.n)];
  const value = pa - pb;
  return { value, low: value - Math.hypot(pa - la, hb - pb), high: value + Math.hypot(ha - pa, pb - lb) };
};

/** Stirling's series of the logarithm of the gamma function (Abramowitz and Stegun 6.1.41), for x > 0. */
const logGamma = (x: number): number => {
  if (x < 10) return logGamma(x + 1) - Math.log(x);
  const square = 1 / (x * x);
  const series = 1 / 12 - square * (1 / 360 - square * (1 / 1_260 - square / 1_680));
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + series / x;
};

/** Steps of the continued fraction, which needs about the square root of the larger parameter. */
const STEPS_MAX = 10_000;
const PRECISION = 1e-15;
const TINY = 1e-300;

const nonZero = (x: number): number => (Math.abs(x) < TINY ? TINY : x);

/** The continued fraction of the incomplete beta (Abramowitz and Stegun 26.5.8), by Lentz's method. */
const betaFraction = (a: number, b: number, x: number): number => {
  let c = 1;
  let d = 1 / nonZero(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m <= STEPS_MAX; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const term of [even, odd]) {
      d = 1 / nonZero(1 + term * d);
      c = nonZero(1 + term / c);
      fraction *= c * d;
    }
    if (Math.abs(c * d - 1) < PRECISION) break;
  }
  return fraction;
};

/** The regularised incomplete beta function. */
const betaShare = (a: number, b: number, x: number): number => {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return (front * betaFraction(a, b, x)) / a;
  return 1 - (front * betaFraction(b, a, 1 - x)) / b;
};

/** As good as the normal distribution. */
const DEGREES_MAX = 1e7;
const T_MAX = 13;

/**
 * Returns the t beyond which 2.5 % of Student's distribution lie, by bisection of its tails as an incomplete
 * beta function (Abramowitz and Stegun 26.7.1).
 * @param degrees of freedom, at least 1
 */
export const studentT95 = (degrees: number): number => {
  if (degrees > DEGREES_MAX) return Z_95;
  const tails = (t: number): number => betaShare(degrees / 2, 0.5, degrees / (degrees + t * t));
  let [low, high] = [1.9, T_MAX];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (tails(middle) > 1 - CONFIDENCE) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
};

/** Numbers of a group: `squares` is the sum of the squared distances from the mean. */
export type Sample = { n: number; mean: number; squares: number };

/** Adds a number to a sample, by Welford's method (Technometrics 4, 1962). */
export const addTo = (sample: Sample, x: number): void => {
  sample.n++;
  const distance = x - sample.mean;
  sample.mean += distance / sample.n;
  sample.squares += distance * (x - sample.mean);
};

/**
 * Returns the difference of two means, `a` minus `b`, with Welch's t interval (Biometrika 34, 1947), whose
 * degrees of freedom are Satterthwaite's; undefined where a group has fewer than two numbers.
 */
export const meanDifference = (a: Sample, b: Sample): Interval | undefined => {
  if (a.n < 2 || b.n < 2) return undefined;
  const [va, vb] = [a.squares / (a.n - 1) / a.n, b.squares / (b.n - 1) / b.n];
  const value = a.mean - b.mean;
  if (va + vb === 0) return { value, low: value, high: value };
  // Satterthwaite's formula in shares of the variance: squares of variances could overflow.
  const share = va / (va + vb);
  const degrees = 1 / (share ** 2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1));
  const spread = studentT95(degrees) * Math.sqrt(va + vb);
  return { value, low: value - spread, high: value + spread };
};
