/** Several measurements of one figure. */
export type Spread = { median: number; min: number; max: number };

export const spread = (values: readonly number[]): Spread => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const median = sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
  return { median, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
};

/** The p-th fraction of sorted values, such as 0.99. */
export const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN;

export const rounded = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));

export const spreadText = ({ median, min, max }: Spread): string =>
  `${rounded(median)} (${rounded(min)}..${rounded(max)})`;

/** Other load above this, in cores, spoils a measurement. */
const CALM_CORES = 0.4;
const TRIES = 3;

/**
 * Measures again while other programs are busy, a few times at most, and keeps the attempt with the least
 * other load, whatever its result.
 */
export const calmest = async <T>(
  measure: () => Promise<T>,
  foreignCores: (sample: T) => number,
): Promise<T> => {
  let best = await measure();
  for (let tries = 1; tries < TRIES && foreignCores(best) > CALM_CORES; tries++) {
    const next = await measure();
    if (foreignCores(next) < foreignCores(best)) best = next;
  }
  return best;
};

/** A Markdown table. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
