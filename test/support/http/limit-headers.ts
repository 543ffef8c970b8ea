import type { Answer } from "./client.ts";

export type ToldLimit = { limit: number; remaining: number; reset: number };

/** What the headers of an answer tell about a limit; undefined without them. */
export const limitOf = ({ headers }: Answer): ToldLimit | undefined => {
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
    headers.get(`X-RateLimit-${name}`),
  );
  if (limit == null && remaining == null && reset == null) return undefined;
  return { limit: Number(limit), remaining: Number(remaining), reset: Number(reset) };
};

/** The limit and what remains of it. */
export const numbers = (answer: Answer): [limit: number, remaining: number] | undefined => {
  const told = limitOf(answer);
  return told && [told.limit, told.remaining];
};

/** Options of a request from an address, or from one that a proxy passes on. */
export const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });
