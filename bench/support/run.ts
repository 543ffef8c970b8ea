import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Box, describeMachine, openBox } from "./box.ts";

/** Writes what was found into the file of `--json`, if there is one. Returns the text. */
export const save = async (found: object, file: string | undefined): Promise<string> => {
  const text = JSON.stringify(found);
  if (file !== undefined) await writeFile(file, text);
  return text;
};

/** Prints what was found, and saves it. */
export const tell = async (found: object, file: string | undefined): Promise<void> =>
  console.log(`\n${await save(found, file)}`);

/** Runs with a directory that ends with it. */
export const inDirectory = async (run: (dir: string) => Promise<void>): Promise<void> => {
  const dir = await mkdtemp(join(tmpdir(), "laurel-bench-"));
  try {
    await run(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
};

/** Runs with a PostgreSQL and a Redis of its own, and a directory for what else there is. */
export const inBox = (run: (box: Box, dir: string) => Promise<void>): Promise<void> =>
  inDirectory(async (dir) => {
    const box = await openBox(join(dir, "data"));
    try {
      await run(box, dir);
    } finally {
      await box.close();
    }
  });

/** Options of benches that measure in modes. */
export const MODE_OPTIONS = {
  quick: { type: "boolean", default: false },
  rounds: { type: "string" },
  modes: { type: "string", default: "cluster,embedded" },
  only: { type: "string" },
  json: { type: "string" },
  profile: { type: "string" },
} as const;

export type Mode = "cluster" | "embedded";

/** Measures in each of the modes that the options name, on a stage of its own, and tells what was found. */
export const inModes = <S extends { close(): Promise<void> }>(
  bench: string,
  { modes, json }: { modes: string; json?: string | undefined },
  {
    open,
    measure,
  }: { open(mode: Mode, dir: string): Promise<S>; measure(mode: Mode, stage: S): Promise<object> },
): Promise<void> =>
  inDirectory(async (dir) => {
    const result: Record<string, unknown> = { bench, machine: await describeMachine() };
    for (const mode of modes.split(",") as Mode[]) {
      const stage = await open(mode, dir);
      try {
        result[mode] = await measure(mode, stage);
      } finally {
        await stage.close();
      }
    }
    await tell(result, json);
  });
