import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:net";

/** A directory whatever path leads to it, and after another one has taken its path. */
export const identityOf = async (directory: string): Promise<string> => {
  const { dev, ino } = await stat(directory, { bigint: true });
  return `${dev}:${ino}`;
};

/**
 * Takes the name of a directory from the kernel: an abstract socket of Linux, which one process of a network
 * namespace can have, no file stands for, and the kernel takes back when the process ends, however it does.
 * @returns what gives it back; "taken"; undefined where there are no such names
 */
export const takeName = async (identity: string): Promise<(() => Promise<void>) | "taken" | undefined> => {
  if (process.platform !== "linux") return undefined;
  const server = createServer((socket) => socket.destroy());
  server.listen({ path: `\0laurel-data:${identity}`, exclusive: true });
  try {
    await once(server, "listening");
  } catch (error) {
    // A sandbox may forbid it, and then the lock file has to do.
    return (error as NodeJS.ErrnoException).code === "EADDRINUSE" ? "taken" : undefined;
  }
  server.unref();
  return () => new Promise((resolve) => void server.close(() => resolve()));
};
