import assert from "node:assert/strict";
import { aSide, type Side } from "../app/sides.ts";
import type { Answer, Client } from "../http/client.ts";

/** Where a race is run: clients of one server each, or of one and the same. */
export type Arena = { clients: readonly Client[] };
/** `isSlow`: waits for caches to grow old where there are several servers. */
export type Race = { name: string; isSlow?: true; run(arena: Arena): Promise<void> };

export type Run = (client: Client, i: number) => Promise<Answer>;

/** `count` requests at once, dealt out over the clients; one that a busy server refuses is sent once more. */
export const together = ({ clients }: Arena, count: number, run: Run): Promise<Answer[]> => {
  const send = (_: unknown, i: number) => run(clients[i % clients.length]!, i);
  const again = async (answer: Answer, i: number) => (answer.status === 503 ? send(answer, i) : answer);
  return Promise.all(Array.from({ length: count }, async (_, i) => again(await send(_, i), i)));
};

export const sideIn = ({ clients }: Arena): Promise<Side> => aSide(clients[0]!);

/** How many answers there are of each status and reason. */
export const tally = (answers: readonly Answer[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { status, body } of answers) {
    const name = body?.error ? `${status} ${body.error.reason ?? body.error.message}` : String(status);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
};

export const oneWins = (answers: readonly Answer[], won: number, lost: string): void =>
  assert.deepEqual(tally(answers), { [won]: 1, [lost]: answers.length - 1 });
