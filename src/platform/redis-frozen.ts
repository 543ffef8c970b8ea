import { v7 } from "uuid";
import {
  FROZEN_COPIES_MAX,
  FROZEN_KEPT_MS,
  FROZEN_MAX,
  FROZEN_SHARED_MS,
  type PeriodRef,
  type RankStore,
  type Standing,
} from "../domain/evaluation/boards/ranks.ts";
import { rankedOf } from "./redis-members.ts";
import type * as SCRIPTS from "./redis-ranks-lua.ts";

export type ScriptName = keyof typeof SCRIPTS;
export type Run = (script: ScriptName, key: string, ...args: (string | number)[]) => Promise<unknown>;

export type FrozenParts = {
  run: Run;
  keyOf(ref: PeriodRef): string;
  /** Retries after building an index that was missing. */
  whenBuilt<T>(ref: PeriodRef, attempt: () => Promise<T | "ABSENT">): Promise<T>;
  namespace: string;
};

/** Reads frozen copies of boards in Redis, which do not change. */
export const frozenReads = ({
  run,
  keyOf,
  whenBuilt,
  namespace,
}: FrozenParts): Pick<RankStore, "freeze" | "frozen"> => ({
  freeze: async (ref, now) => {
    const [key, token] = [keyOf(ref), v7()];
    const args = [ref.ties, token, FROZEN_MAX, FROZEN_KEPT_MS, FROZEN_SHARED_MS];
    const taken = await whenBuilt(
      ref,
      async () => ((await run("FREEZE", key, ...args)) as string | null) ?? "ABSENT",
    );
    const registry = `{${namespace}:rank-copies:${ref.projectId}}`;
    if (taken === token) await endOldest(run, { key, token, now, registry });
    return taken;
  },
  frozen: async (ref, token, { offset, limit }) => {
    const reply = (await run("FROZEN", keyOf(ref), token, offset, limit)) as [string, string[]] | null;
    return reply ? { standings: linesOf(reply[1], offset), total: Number(reply[0]) } : undefined;
  },
});

const linesOf = (lines: readonly string[], offset: number): Standing[] =>
  lines.map((line, i) => {
    const [rank, score, member] = line.split("|") as [string, string, string];
    return { ...rankedOf(member, score), position: offset + i, rank: Number(rank) };
  });

type NewCopy = { key: string; token: string; now: Date; registry: string };

/** Ends a project's oldest copies beyond FROZEN_COPIES_MAX. */
const endOldest = async (run: Run, { key, token, now, registry }: NewCopy): Promise<void> => {
  const args = [`${token}|${key}`, now.getTime(), FROZEN_KEPT_MS, FROZEN_COPIES_MAX];
  const ended = (await run("REGISTER", registry, ...args)) as string[];
  for (const copy of ended) {
    const bar = copy.indexOf("|");
    await run("THAW", copy.slice(bar + 1), copy.slice(0, bar));
  }
};
