import { readFileSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../../..");
export const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

/** What stands between a heading and the next one of any level. @throws Error without the heading */
export const sectionOf = (path: string, heading: string): string => {
  const found = new RegExp(`^#+ ${heading}\\n([\\s\\S]*?)(?=^#|(?![\\s\\S]))`, "m").exec(textOf(path));
  if (!found) throw new Error(`${path} has no heading ${heading}`);
  return found[1]!;
};

const isRule = (line: string): boolean => /^\|[-|: ]+\|$/.test(line);

/** The cells of every table row of a Markdown text, without the heads of the tables. */
export const rowsIn = (text: string): string[][] =>
  text
    .split("\n")
    .filter((line, i, all) => line.startsWith("|") && !isRule(line) && !isRule(all[i + 1] ?? ""))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );

/** The cells of every table row under a heading, without the heads of the tables. */
export const rowsOf = (path: string, heading: string): string[][] => rowsIn(sectionOf(path, heading));

/** The words in backticks of a cell. */
export const namesIn = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
