import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

/** State of the demo kept between starts. It does not include the account's password. */
const DemoFile = z.object({
  projectId: z.string(),
  /** A test key of the project: it acts on the project's sandbox. */
  key: z.string(),
  /** Number of events in its history. */
  events: z.int(),
  /** Whether everything was created and the password was shown. */
  isComplete: z.boolean(),
});
export type DemoFile = z.output<typeof DemoFile>;

/** Path of the file with the demo's key, readable only by its owner. */
export const demoFilePath = (dataDir: string): string => join(dataDir, "demo.json");

/** Undefined when there is none, or it cannot be parsed. */
export const readDemoFile = async (dataDir: string): Promise<DemoFile | undefined> => {
  try {
    return DemoFile.parse(JSON.parse(await readFile(demoFilePath(dataDir), "utf8")));
  } catch {
    return undefined;
  }
};

/** Writes the file atomically. */
export const writeDemoFile = async (dataDir: string, file: DemoFile): Promise<void> => {
  const draft = `${demoFilePath(dataDir)}.${randomUUID()}`;
  await writeFile(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600, flag: "wx", flush: true });
  await rename(draft, demoFilePath(dataDir));
};

export const removeDemoFile = (dataDir: string): Promise<void> => rm(demoFilePath(dataDir), { force: true });
