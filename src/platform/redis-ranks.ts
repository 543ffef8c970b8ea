import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import { sql } from "kysely";
import { v7 } from "uuid";
import { DomainError } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import type { EntryChange } from "../domain/kernel/events/events.ts";
import {
  type EntrySource,
  FROZEN_COPIES_MAX,
  FROZEN_KEPT_MS,
  FROZEN_MAX,
  FROZEN_SHARED_MS,
  joinMoved,
  type Moved,
  type PeriodRef,
  type Ranked,
  type RankPage,
  type RankStore,
  type Standing,
  type Ties,
} from "../domain/evaluation/boards/ranks.ts";
import { numberStandings } from "../domain/leaderboards/open-lists.ts";
import type { Database } from "./database.ts";
import * as SCRIPTS from "./redis-ranks-lua.ts";

/**
 * Ties may be negative; in a member they are shifted by this, so that 14 hex digits sort as the numbers do.
 */
const TIE_OFFSET = 2n ** 55n;

export const hexOf = (tie: number): string => (BigInt(tie) + TIE_OFFSET).toString(16).padStart(14, "0");
/** Computes a tie from the two halves of its hex digits: each is exact, and so is the sum. */
export const tieOf = (high: number, low: number): number => (high - 2 ** 27) * 2 ** 28 + low;

/** Parses an entry of a sorted set, whose members are `tie:player`. */
export const rankedOf = (member: string, score: string): Ranked => ({
  playerId: member.slice(15),
  rankScore: Number(score),
  rankTie: tieOf(Number.parseInt(member.slice(0, 7), 16), Number.parseInt(member.slice(7, 14), 16)),
});

type ScriptName = keyof typeof SCRIPTS;
type Run = (script: ScriptName, key: string, ...args: (string | number)[]) => Promise<unknown>;

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

/** Entries per script call: under 2 ms, so that other clients are not delayed. */
const CHUNK = 200;
/** A build that has written no page for this long is dead; another may begin. */
const LEASE_MS = 15_000;
/** How long a rebuild waits for one in progress, and how often it checks. */
const REBUILD_WAIT_MS = 60_000;
const REBUILD_POLL_MS = 50;

type Period = Pick<PeriodRef, "projectId" | "periodId">;
type Read = { ties: Ties; offset: number; limit: number; playerId: string; after?: Ranked };

/**
 * The rank index in Redis, for any number of processes. A period has a generation that serves reads and,
 * while it is rebuilt, one more; an applied entry goes to both in one script. A build sets the pointer to its
 * generation before it reads the database, so that an entry which it does not read is one that is applied to
 * it; versions make the order of the two irrelevant. Where there is no generation, applying does nothing: the
 * entry was committed before it got here, and every later build reads it.
 */
export const createRedisRanks = (redis: Redis, namespace: string, source: EntrySource): RankStore => {
  const run = scriptRunner(redis);
  const keyOf = ({ projectId, periodId }: Period): string =>
    `{${namespace}:rank:${projectId}:${periodId}}:cur`;
  /** Builds in progress in this process: its readers share one. */
  const building = new Map<string, Promise<boolean>>();

  const build = (ref: PeriodRef): Promise<boolean> => {
    const key = keyOf(ref);
    const promise = buildGeneration(run, key, { ref, source }).finally(() => void building.delete(key));
    building.set(key, promise);
    return promise;
  };

  const whenBuilt = async <T>(ref: PeriodRef, attempt: () => Promise<T | "ABSENT">): Promise<T> => {
    const first = await attempt();
    if (first !== "ABSENT") return first;
    const isBuilt = await (building.get(keyOf(ref)) ?? build(ref));
    const second = isBuilt ? await attempt() : "ABSENT";
    if (second === "ABSENT") throw beingBuilt();
    return second;
  };

  const read = (ref: PeriodRef, query: Omit<Read, "ties">): Promise<RankPage | undefined> =>
    whenBuilt(ref, () => readGeneration(run, keyOf(ref), { ...query, ties: ref.ties }));

  const rebuild = async (ref: PeriodRef): Promise<void> => {
    const until = Date.now() + REBUILD_WAIT_MS;
    // One in progress may have read past the data that the caller needs: wait, then build.
    while (building.has(keyOf(ref)) || !(await build(ref))) {
      if (Date.now() > until) throw beingBuilt();
      await delay(REBUILD_POLL_MS);
    }
  };

  return {
    apply: async (projectId, periodId, entries) => {
      let moved: Moved | undefined;
      for (const chunk of chunksOf(entries)) {
        const found = await run("APPLY", keyOf({ projectId, periodId }), ...argsOf(chunk));
        moved = joinMoved(moved, readMoved(found as [string, string] | null));
      }
      return moved;
    },
    page: async (ref, offset, limit) => (await read(ref, { offset, limit, playerId: "" }))!,
    around: (ref, playerId, limit) => read(ref, { offset: 0, limit, playerId }),
    standing: async (ref, playerId) => (await read(ref, { offset: 0, limit: 0, playerId }))?.standings[0],
    standings: async (ref, playerIds) => {
      const chunks = [...chunksOf(playerIds)];
      const found = chunks.map((ids) => whenBuilt(ref, () => readStandings(run, keyOf(ref), ref.ties, ids)));
      return (await Promise.all(found)).flat();
    },
    after: async (ref, after, { skip, limit }) =>
      (await read(ref, { offset: skip, limit, playerId: "", after }))!,
    freeze: async (ref, now) => {
      const [key, token] = [keyOf(ref), v7()];
      const args = [ref.ties, token, FROZEN_MAX, FROZEN_KEPT_MS, FROZEN_SHARED_MS];
      const freeze = async () => ((await run("FREEZE", key, ...args)) as string | null) ?? "ABSENT";
      const taken = await whenBuilt(ref, freeze);
      const registry = `{${namespace}:rank-copies:${ref.projectId}}`;
      if (taken === token) await endOldest(run, { key, token, now, registry });
      return taken;
    },
    frozen: async (ref, token, { offset, limit }) => {
      const reply = (await run("FROZEN", keyOf(ref), token, offset, limit)) as [string, string[]] | null;
      return reply ? { standings: linesOf(reply[1], offset), total: Number(reply[0]) } : undefined;
    },
    rebuild,
    drop: async (projectId, periodId) => void (await run("DROP", keyOf({ projectId, periodId }))),
    reached: async (seq) => void (await run("REACHED", reachedKey(namespace), seq)),
  };
};

const reachedKey = (namespace: string): string => `${namespace}:rank-reached`;

/** PostgreSQL that has recovered goes on with a number that is up to so much higher than its last one. */
const SKIPPED_MAX = 32;

/** The last number of the queue of commits, and whether it may be too high, on a server since its start. */
type QueuePlace = { seq: number; mayBeHigh: boolean; server: string };

export const readQueuePlace = async ({ em }: Pick<Database, "em">): Promise<QueuePlace> =>
  (
    await sql<QueuePlace>`
      select last_value::float8 as seq, log_cnt = 0 as "mayBeHigh", pg_postmaster_start_time()::text as server
      from outbox_q_seq_seq`.execute(em.fork().getKysely())
  ).rows[0]!;

/**
 * Empties the rank index, which is then built anew, where the database is an earlier one than that which the
 * index was made of, as after a restore: the index would ignore its versions.
 * @returns whether it was
 */
export const followDatabase = async (
  redis: Redis,
  namespace: string,
  read: () => Promise<QueuePlace>,
): Promise<boolean> => {
  const key = reachedKey(namespace);
  // Before the database is read: the relays of other processes go on.
  const [reached, known] = await redis.hmget(key, "seq", "server");
  const { seq, mayBeHigh, server } = await read();
  const least = mayBeHigh && server !== known ? seq - SKIPPED_MAX : seq;
  const isEarlier = reached != null && least < Number(reached);
  if (isEarlier) {
    for await (const keys of redis.scanStream({ match: `{${namespace}:rank*`, count: 1_000 }))
      if (keys.length > 0) await redis.unlink(keys as string[]);
    await redis.hdel(key, "seq");
  }
  await redis.hset(key, { server });
  return isEarlier;
};

const beingBuilt = () =>
  new DomainError("SERVICE_UNAVAILABLE", "the leaderboard is being built", { retryAfterSeconds: 1 });

/** Scripts whose replies are not text. */
const IN_BYTES: ReadonlySet<string> = new Set<ScriptName>(["STANDINGS"]);

/** Runs scripts by their digest, and by their text where Redis has lost it. */
const scriptRunner = (redis: Redis): Run => {
  type Command = (key: string, ...args: (string | number)[]) => Promise<unknown>;
  const commands = {} as Record<ScriptName, Command>;
  for (const [name, lua] of Object.entries(SCRIPTS)) {
    const command = `laurelRanks${name}`;
    redis.defineCommand(command, { numberOfKeys: 1, lua });
    const call = (redis as unknown as Record<string, Command>)[
      IN_BYTES.has(name) ? `${command}Buffer` : command
    ]!;
    commands[name as ScriptName] = call.bind(redis);
  }
  return async (script, key, ...args) => {
    try {
      return await commands[script](key, ...args);
    } catch (error) {
      // Another reply is a bug in a script.
      if (error instanceof Error && error.name === "ReplyError" && outageOf(error) === undefined) throw error;
      throw new DomainError("SERVICE_UNAVAILABLE", "rankings are not available", { retryAfterSeconds: 1 });
    }
  };
};

const readMoved = (found: readonly [string, string] | null): Moved | undefined => {
  if (!found) return undefined;
  const [from, to] = found.map((text) => (text.endsWith("inf") ? null : Number(text))) as [
    Moved["from"],
    Moved["to"],
  ];
  return { from, to };
};

const argsOf = (entries: readonly EntryChange[]): (string | number)[] =>
  entries.flatMap(([playerId, rankScore, rankTie, version, isHidden = false]) => [
    playerId,
    isHidden ? "" : rankScore,
    hexOf(rankTie),
    version,
  ]);

function* chunksOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += CHUNK) yield items.slice(start, start + CHUNK);
}

type Build = { ref: PeriodRef; source: EntrySource };

/** @returns whether this build is read now; false when another one holds the lease */
const buildGeneration = async (run: Run, key: string, { ref, source }: Build): Promise<boolean> => {
  const generation = `${ref.ties === "DENSE" ? "d" : "s"}${v7()}`;
  if ((await run("BEGIN", key, generation, LEASE_MS)) === 0) return false;
  try {
    for await (const page of source(ref.projectId, ref.periodId)) {
      for (const chunk of chunksOf(page)) {
        const isOurs = (await run("LOAD", key, generation, LEASE_MS, ...argsOf(chunk))) === 1;
        if (!isOurs) return await giveUp(run, key, generation);
      }
    }
    return (await run("SWITCH", key, generation)) === 1 || (await giveUp(run, key, generation));
  } catch (error) {
    await giveUp(run, key, generation).catch(() => false);
    throw error;
  }
};

const giveUp = async (run: Run, key: string, generation: string): Promise<false> => {
  await run("ABANDON", key, generation);
  return false;
};

type Reply = [total: number, start: number, rank: number, page: string[]];

const readGeneration = async (
  run: Run,
  key: string,
  query: Read,
): Promise<RankPage | undefined | "ABSENT"> => {
  const { ties, offset, limit, playerId, after } = query;
  const place = after ? [after.rankScore, `${hexOf(after.rankTie)}:${after.playerId}`] : ["", ""];
  const reply = (await run("READ", key, ties, offset, limit, playerId, ...place)) as Reply | null;
  if (reply === null) return "ABSENT";
  const [total, position, rank, page] = reply;
  if (total < 0) return undefined;
  const members: Ranked[] = [];
  for (let i = 0; i < page.length; i += 2) members.push(rankedOf(page[i]!, page[i + 1]!));
  return { standings: numberStandings({ ties, position, rank }, members), total };
};

/** Bytes of each player in the script's reply: five whole numbers and a score. */
const STANDING_BYTES = 28;

const readStandings = async (
  run: Run,
  key: string,
  ties: Ties,
  playerIds: readonly string[],
): Promise<Standing[] | "ABSENT"> => {
  const reply = (await run("STANDINGS", key, ties, playerIds.join(","))) as Buffer | null;
  if (reply === null) return "ABSENT";
  const standings: Standing[] = [];
  for (let at = 0; at < reply.length; at += STANDING_BYTES)
    standings.push({
      playerId: playerIds[reply.readUInt32BE(at)]!,
      rankScore: reply.readDoubleBE(at + 20),
      rankTie: tieOf(reply.readUInt32BE(at + 12), reply.readUInt32BE(at + 16)),
      position: reply.readUInt32BE(at + 4),
      rank: reply.readUInt32BE(at + 8),
    });
  return standings;
};
