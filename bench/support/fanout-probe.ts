// Loaded into a measured server with --import: answers what memory it holds.

export type ProbeOrder = { probe: "memory" };
/** In bytes, after two full collections. */
export type Memory = { rss: number; heap: number };

const weigh = async (): Promise<Memory> => {
  for (let n = 0; n < 2; n++) {
    globalThis.gc?.();
    await new Promise(setImmediate);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rss, heap: heapUsed + external };
};

process.on("message", (order: ProbeOrder | { probe?: undefined }) => {
  if (order.probe === "memory") void weigh().then((memory) => process.send?.(memory));
});
// What is measured ends by itself.
process.channel?.unref();
