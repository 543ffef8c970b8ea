import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

/** Reads the options of a benchmark: those that all have, and its own with their defaults. */
export const optionsOf = <Own extends string>(own: Readonly<Record<Own, string>>) => {
  const defaults: Record<string, string> = { rounds: "5", ...own };
  const texts = Object.entries(defaults).map(([name, text]) => [name, { type: "string", default: text }]);
  const options = {
    against: { type: "string" },
    embedded: { type: "boolean" },
    ...Object.fromEntries(texts),
  };
  return parseArgs({ options: options as ParseArgsOptionsConfig }).values as Record<
    Own | "rounds",
    string
  > & {
    against?: string;
    embedded?: boolean;
  };
};

/** Figures of one measurement, by name. */
export type Sample = Readonly<Record<string, number>>;
/** One of those that are compared. */
export type Entrant = { name: string; measure(): Promise<Sample> };

export const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN;

const rounded = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));

/** Median and range of several measurements of one figure. */
const spreadText = (values: readonly number[]): string => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [upper = Number.NaN, lower = Number.NaN] = [sorted[middle], sorted[(sorted.length - 1) >> 1]];
  const range = sorted.length > 1 ? ` (${rounded(sorted[0]!)}..${rounded(sorted.at(-1)!)})` : "";
  return `${rounded((upper + lower) / 2)}${range}`;
};

/** A Markdown table. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/**
 * Measures entrants in turns, forth in odd rounds and back in even ones, so that a slow minute strikes all of
 * them, and prints the medians of their figures and the ratios of the first to each other one, which are of
 * the same round. The first measurement of each compiles its code, and does not count.
 */
export const inTurns = async (
  title: string,
  entrants: readonly Entrant[],
  { rounds, warmUps = 1 }: { rounds: number; warmUps?: number },
): Promise<void> => {
  const found = new Map<string, Sample[]>(entrants.map(({ name }) => [name, []]));
  for (let round = 1 - warmUps; round <= rounds; round++) {
    for (const { name, measure } of round % 2 === 1 ? entrants : entrants.toReversed()) {
      const sample = await measure();
      if (round > 0) found.get(name)!.push(sample);
    }
    console.error(`${title}: round ${round} of ${rounds}`);
  }
  const [own = [], ...others] = found.values();
  const names = [...found.keys()];
  const figures = Object.keys(own[0] ?? {});
  const rows = figures.map((figure) => [
    figure,
    ...[...found.values()].map((samples) => spreadText(samples.map((sample) => sample[figure]!))),
    ...others.map((samples) => spreadText(samples.map((sample, i) => own[i]![figure]! / sample[figure]!))),
  ]);
  console.log(`\n${table([title, ...names, ...names.slice(1).map((name) => `ratio to ${name}`)], rows)}`);
};

/** Runs with a directory that ends with it. */
export const inDirectory = async (run: (dir: string) => Promise<void>): Promise<void> => {
  const dir = await mkdtemp(join(tmpdir(), "laurel-bench-"));
  await run(dir);
  await rm(dir, { recursive: true, force: true });
};
