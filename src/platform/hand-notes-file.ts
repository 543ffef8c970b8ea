import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { HandNotes, OthersNote } from "../domain/progression/in-hand.ts";

/** What the process that owns the directory has in hand. */
const OWN_FILE = "in-hand.json";
/** What earlier ones had in hand when they died, a line for each. */
const LEFT_FILE = "in-hand-left.jsonl";

const readLines = (path: string): string[] => {
  try {
    return readFileSync(path, "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
};

/**
 * Creates the notes of the only process on a data directory, in files. A write goes to the page cache: it
 * outlives the process, but not a power cut, and does not wait for the disk.
 */
export const createHandNotesFile = (dataDir: string, warn: (err: unknown) => void): HandNotes => {
  const [own, left] = [join(dataDir, OWN_FILE), join(dataDir, LEFT_FILE)];
  let file: number | undefined;
  let others: readonly string[] = [];

  const keepOthers = (lines: readonly string[]): void => {
    others = lines;
    writeFileSync(`${left}.new`, lines.map((line) => `${line}\n`).join(""), { mode: 0o600 });
    renameSync(`${left}.new`, left);
  };
  /** Takes over what earlier processes have left, once. */
  const open = (): number => {
    if (file !== undefined) return file;
    const [last] = readLines(own);
    keepOthers([...new Set([...readLines(left), ...(last === undefined ? [] : [last])])]);
    return (file = openSync(own, "w", 0o600));
  };
  const write = (text: string): void => {
    const to = open();
    // What is left behind the line of a shorter note is not read, should the process die in between.
    ftruncateSync(to, text === "" ? 0 : writeSync(to, `${text}\n`, 0));
  };
  return {
    note: (text) => {
      try {
        write(text);
      } catch (err) {
        warn(err);
      }
    },
    look: async () => {
      open();
      return others.map((text): OthersNote => ({ id: text, text, isDead: true }));
    },
    forget: async (notes) => {
      const gone = new Set(notes.map(({ id }) => id));
      keepOthers(others.filter((text) => !gone.has(text)));
    },
    close: async () => {
      if (file === undefined) return;
      write("");
      closeSync(file);
      file = undefined;
    },
  };
};
