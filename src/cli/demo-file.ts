import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

/** What is kept of the demo between starts. The password of its account is not. */
const DemoFile = z.object({
  projectId: z.string(),
  /** A test key of the project: it acts on the project's sandbox. */
  key: z.string(),
  /** Events of its history. */
  events: z.int(),
  /** Everything is there and the password has been shown. */
  isComplete: z.boolean(),
});
export type DemoFile = z.output<typeof DemoFile>;

/** Where the demo's key is kept, readable by its owner only. */
export const demoFilePath = (dataDir: string): string => join(dataDir, "demo.json");

/** Undefined when there is none, or none that can be read. */
export const readDemoFile = async (dataDir: string): Promise<DemoFile | undefined> => {
  try {
    return DemoFile.parse(JSON.parse(await readFile(demoFilePath(dataDir), "utf8")));
  } catch {
    return undefined;
  }
};

/** Writes the file whole or not at all. */
export const writeDemoFile = async (dataDir: string, file: DemoFile): Promise<void> => {
  const draft = `${demoFilePath(dataDir)}.${randomUUID()}`;
  await writeFile(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600, flag: "wx", flush: true });
  await rename(draft, demoFilePath(dataDir));
};

export const removeDemoFile = (dataDir: string): Promise<void> => rm(demoFilePath(dataDir), { force: true });
