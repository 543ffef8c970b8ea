// How many messages a second one channel commits: in groups as rooms send them, against the bare inserts of
// the same rows; and through a room, from many sockets to all of them. See README.md.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sql } from "kysely";
import { lockChannel } from "../src/domain/social/chat/channel-row.ts";
import { newId } from "../src/domain/kernel/ids.ts";
import { openPostgres } from "../src/platform/database.ts";
import { aTalk, type Talk } from "../test/support/chat/talk.ts";
import { startServices } from "../test/support/processes/services.ts";
import { type Domain, openDomain } from "../test/support/domain/domain.ts";
import { describeMachine, openBox } from "./support/box.ts";
import {
  FLOOD_MEMBERS,
  type Flooded,
  PACE_MEMBERS,
  type Paced,
  runFlood,
  runPace,
} from "./support/chat-crowds.ts";
import { openStage } from "./support/fanout-stage.ts";
import { inDirectory, save } from "./support/run.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";

const PARTS = ["groups", "room"] as const;
const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    messages: { type: "string" },
    /** Of the part `room`: messages of the flood, and the rate at which times are taken. */
    flood: { type: "string" },
    rate: { type: "string" },
    only: { type: "string", default: PARTS.join(",") },
    json: { type: "string" },
    profile: { type: "string" },
  },
});
const only = new Set(options.only.split(","));
const ROUNDS = Number(options.rounds ?? (options.quick ? 2 : 5));
const MESSAGES = Number(options.messages ?? (options.quick ? 4_000 : 20_000));
/** Messages in one commit: a single send, and what gathers in a few ms at the goal's rate. */
const GROUPS = [1, 20, 50, 200];
/** A group of one says little more after this many. */
const SINGLE_MAX = 2_000;
const PLAYERS = 100;
const GOAL = 3_000;
const FLOOD = Number(options.flood ?? (options.quick ? 6_000 : 30_000));
const RATE = Number(options.rate ?? GOAL / 2);
const PACE_S = options.quick ? 5 : 20;
const P99_MAX_MS = 150;
const NAMES = ["laurel", "inserts"] as const;
const TEXT = "Who wants to trade a blue sword for two red shields?";

type Sample = { contestant: "laurel" | "inserts"; group: number; rate: number };
type Send = (talk: Talk, count: number, from: number) => Promise<void>;

/** As a chat room commits its clients' sends. */
const laurel: Send = async (talk, count, from) => {
  const sendings = Array.from({ length: count }, (_, i) => ({
    actor: talk.players[(from + i) % PLAYERS]!,
    send: { content: `${TEXT} ${from + i}`, clientMsgId: newId() },
  }));
  const { sent } = await talk.send(...sendings);
  for (const one of sent) if ("error" in one) throw one.error;
};

/** The rows alone: channel locked, messages numbered and inserted; nothing looked up, judged or told. */
const inserts =
  (domain: Domain): Send =>
  ({ ref, players }, count, from) =>
    domain.transact(async (work) => {
      const { lastSeq } = await lockChannel(work, ref);
      const rows = Array.from({ length: count }, (_, i) => ({
        s: lastSeq + i + 1,
        i: newId(),
        p: players[(from + i) % PLAYERS]!.playerId,
        c: `${TEXT} ${from + i}`,
        k: newId(),
      }));
      await sql`
        with c as (
          update chat_channels set last_seq = ${lastSeq + count}::bigint
          where project_id = ${ref.projectId} and id = ${ref.channelId})
        insert into chat_messages (project_id, channel_id, seq, id, sender_id, type, content, client_msg_id,
          moderation, created_at)
        select ${ref.projectId}::uuid, ${ref.channelId}::uuid, s, i, p, 'TEXT', c, k, 'VISIBLE', now()
        from json_to_recordset(${JSON.stringify(rows)}::json)
          as r(s bigint, i uuid, p uuid, c text, k text)`.execute(work.db);
    });

/** Commits one after another, as the lock of the channel makes them be. */
const measure = async (talk: Talk, send: Send, group: number): Promise<number> => {
  const messages = group === 1 ? Math.min(MESSAGES, SINGLE_MAX) : MESSAGES;
  const startMs = performance.now();
  for (let from = 0; from < messages; from += group) await send(talk, group, from);
  return (messages * 1_000) / (performance.now() - startMs);
};

const summarise = (samples: readonly Sample[]) => {
  const rates = (contestant: Sample["contestant"], group: number) =>
    samples.filter((one) => one.contestant === contestant && one.group === group).map(({ rate }) => rate);
  const figures = GROUPS.map((group) => {
    const [ours, floor] = [rates("laurel", group), rates("inserts", group)];
    return {
      group,
      laurel: spread(ours),
      inserts: spread(floor),
      ratio: spread(ours.map((rate, i) => rate / floor[i]!)),
    };
  });
  const verdict = (group: number, median: number) =>
    group === 1 ? "" : `${median >= GOAL ? "met" : "MISSED"}: ${GOAL}`;
  const lines = figures.map((one) => [
    String(one.group),
    spreadText(one.laurel),
    spreadText(one.inserts),
    spreadText(one.ratio),
    verdict(one.group, one.laurel.median),
  ]);
  console.log(`\n${table(["group", "laurel, messages/s", "inserts, messages/s", "ratio", "goal"], lines)}\n`);
  return figures;
};

const measureGroups = async (dir: string) => {
  const services = await startServices(dir, { isEmpty: true });
  const database = await openPostgres(services.databaseUrl, 4);
  try {
    await database.migrateUp();
    const domain = openDomain(database);
    const contestants = { laurel, inserts: inserts(domain) } as const;
    const samples: Sample[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const names = round % 2 === 0 ? NAMES : NAMES.toReversed();
      const turns = GROUPS.flatMap((group) => names.map((contestant) => ({ contestant, group })));
      for (const turn of turns) {
        const talk = await aTalk(domain, PLAYERS);
        const rate = await measure(talk, contestants[turn.contestant], turn.group);
        await check(domain, talk);
        // The first round compiles the code.
        if (round > 0) samples.push({ ...turn, rate });
      }
      console.error(`round ${round} of ${ROUNDS}`);
    }
    return { samples, figures: summarise(samples) };
  } finally {
    await database.close();
    await services.remove();
  }
};

const summariseRoom = (floods: readonly Flooded[], paces: readonly Paced[]): void => {
  const of = <T>(list: readonly T[], value: (one: T) => number) => spread(list.map(value));
  const rate = of(floods, (one) => one.rate);
  const p99 = of(paces, (one) => one.p99Ms);
  const verdict = (isMet: boolean, goal: string) => `${isMet ? "met" : "MISSED"}: ${goal}`;
  const lines = [
    [`${FLOOD_MEMBERS} members, messages/s`, rate, verdict(rate.median >= GOAL, String(GOAL))],
    ["server CPU of a message, us", of(floods, (one) => one.serverUs), ""],
    ["PostgreSQL's CPU of a message, us", of(floods, (one) => one.postgresUs), ""],
    ["other load, cores", of(floods, (one) => one.foreign), ""],
    [`${PACE_MEMBERS} members, ${rounded(RATE)} messages/s, p50 ms`, of(paces, (one) => one.p50Ms), ""],
    ["p99 ms", p99, verdict(p99.median < P99_MAX_MS, `${P99_MAX_MS} at most`)],
    ["server, cores", of(paces, (one) => one.serverCores), ""],
    ["other load, cores", of(paces, (one) => one.foreign), ""],
  ] as const;
  const rows = lines.map(([name, value, goal]) => [name, spreadText(value), goal]);
  console.log(`\n${table(["room", "median (min..max)", "goal"], rows)}\n`);
};

const measureRoom = async (dir: string) => {
  const box = await openBox(join(dir, "room"));
  try {
    const stage = await openStage(box, dir, { count: FLOOD_MEMBERS, profile: options.profile });
    const [floods, paces]: [Flooded[], Paced[]] = [[], []];
    try {
      for (let round = 1; round <= ROUNDS; round++) {
        floods.push(await runFlood(stage, FLOOD));
        paces.push(await runPace(stage, { rate: RATE, seconds: PACE_S }));
        console.error(`room, round ${round} of ${ROUNDS}`);
      }
    } finally {
      await stage.close();
    }
    summariseRoom(floods, paces);
    return { floods, paces };
  } finally {
    await box.close();
  }
};

const main = (): Promise<void> =>
  inDirectory(async (dir) => {
    const groups = only.has("groups") ? await measureGroups(dir) : {};
    const room = only.has("room") ? await measureRoom(dir) : {};
    console.log(
      await save({ bench: "chat", machine: await describeMachine(), ...groups, room }, options.json),
    );
  });

/** Wrong is void: as many rows as numbers. */
const check = (domain: Domain, { ref }: Talk): Promise<void> =>
  domain.transact(async (work) => {
    const { lastSeq } = await lockChannel(work, ref);
    const found = await sql<{ n: string }>`
      select count(*) as n from chat_messages where channel_id = ${ref.channelId}
        and seq between 1 and ${lastSeq}::bigint`.execute(work.db);
    if (Number(found.rows[0]!.n) !== lastSeq || lastSeq === 0) throw new Error("messages are missing");
  });

await main();
