import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:net";

/** Identifies a directory independently of its path, even after another one has taken that path. */
export const identityOf = async (directory: string): Promise<string> => {
  const { dev, ino } = await stat(directory, { bigint: true });
  return `${dev}:${ino}`;
};

/**
 * Reserves a directory's name in the kernel: an abstract socket of Linux, which only one process of a network
 * namespace can bind, which has no file, and which the kernel releases when the process ends, however it
 * does.
 * @returns a function that releases it; "taken"; undefined where there are no such names
 */
export const takeName = async (identity: string): Promise<(() => Promise<void>) | "taken" | undefined> => {
  if (process.platform !== "linux") return undefined;
  const server = createServer((socket) => socket.destroy());
  server.listen({ path: `\0laurel-data:${identity}`, exclusive: true });
  try {
    await once(server, "listening");
  } catch (error) {
    // A sandbox may forbid it; then the lock file must suffice.
    return (error as NodeJS.ErrnoException).code === "EADDRINUSE" ? "taken" : undefined;
  }
  server.unref();
  return () => new Promise((resolve) => void server.close(() => resolve()));
};
