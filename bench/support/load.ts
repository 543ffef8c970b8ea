import { Pool } from "undici";
import { percentile } from "./turns.ts";

export type Sending = { method: "GET" | "POST"; path: string; body?: object };

export type Load = {
  url: string;
  key?: string;
  /** The n-th request. */
  make(n: number): Sending;
  connections: number;
  /** It ends after so long, or after so many requests. */
  ms?: number;
  count?: number;
};

/** Times in ms; `rate` is requests a second. */
export type Loaded = { sent: number; rate: number; p50Ms: number; p99Ms: number };

/** Sends requests, one after the other on each connection. @throws Error unless each is answered with 2xx */
export const load = async ({ url, key = "", make, connections, ms = Infinity, count = Infinity }: Load) => {
  const pool = new Pool(url, { connections, pipelining: 1 });
  const times: number[] = [];
  const startMs = performance.now();
  let next = 0;
  const headers = { "X-API-Key": key, "Content-Type": "application/json" };
  const lane = async (): Promise<void> => {
    while (next < count && performance.now() - startMs < ms) {
      const { method, path, body } = make(next++);
      const sentMs = performance.now();
      const answer = await pool.request({ method, path, headers, body: body ? JSON.stringify(body) : null });
      const text = await answer.body.text();
      if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
      times.push(performance.now() - sentMs);
    }
  };
  await Promise.all(Array.from({ length: connections }, lane));
  const seconds = (performance.now() - startMs) / 1_000;
  await pool.close();
  const sorted = times.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
  return { sent: times.length, rate: times.length / seconds, p50Ms, p99Ms } satisfies Loaded;
};
