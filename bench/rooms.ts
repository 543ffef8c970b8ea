// What live rooms cost with real clients of the SDK, in builds that take turns and beside a room of socket.io
// that says the same to as many: `npm run bench:rooms -- --against ../other-checkout`.
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import { type AnyRoom, atRate, joinAll, leaveAll, makePlayers } from "../loadtest/clients.ts";
import { Tally } from "../loadtest/tally.ts";
import { FLOOR, onStages, post, type Site, type Sql, start, startCosts, until } from "./support/stage.ts";
import { type Entrant, inTurns, optionsOf, percentile, type Sample } from "./support/turns.ts";

const options = optionsOf({ clients: "100", rate: "30", seconds: "5" });
const [CLIENTS, RATE, SECONDS, ROUNDS] = [options.clients, options.rate, options.seconds, options.rounds].map(
  Number,
) as [number, number, number, number];
/** After the last message, for what is still on its way. */
const LAST_MAX_MS = 10_000;
const SETTLE_MS = 500;
const PATCHED_PER_SECOND = 10;

/** Where messages are said and heard by everybody. */
type Place = {
  /** Says the n-th message; `sentMs` comes back with it, where the place has room for that. */
  say(n: number, sentMs: number): Promise<unknown>;
  /** Calls back for each message at each client, with when it was said. */
  onHeard(heard: (sentMs: number) => void): void;
  leave(): Promise<unknown>;
};

type Costing = { pids: readonly number[]; sql?: Sql };

/** CPU of 1,000 deliveries, by the processes that a place has; times are of single deliveries. */
const measure = async (place: Place, { pids, sql }: Costing, rate: number): Promise<Sample> => {
  const times: number[] = [];
  place.onHeard((sentMs) => times.push(performance.now() - sentMs));
  const stop = await startCosts(pids, sql);
  let said = 0;
  await atRate({ rate, seconds: SECONDS }, async (n) => {
    await place.say(n, performance.now());
    said++;
  });
  await until(() => times.length >= said * CLIENTS, { maxMs: LAST_MAX_MS });
  const { of, postgres } = await stop();
  const per = (seconds: number): number => (1e6 * seconds) / times.length;
  const [server = 0, worker = 0] = of.map(per);
  times.sort((a, b) => a - b);
  return {
    "CPU ms of 1,000 deliveries": server + worker + per(postgres),
    "of it the server": server,
    "of it PostgreSQL": per(postgres),
    "p50 ms": percentile(times, 0.5),
    "p99 ms": percentile(times, 0.99),
  };
};

/** Has everybody in a room. @throws Error when one could not join */
const enter = async (site: Site, name: string, settings: object): Promise<AnyRoom[]> => {
  const tally = new Tally();
  const players = await makePlayers(site, CLIENTS, { tally, prefix: "member" });
  const rooms = await joinAll(players, { tally, name, options: settings });
  await delay(SETTLE_MS);
  return rooms.map((room) => {
    if (!room) throw new Error(`a client could not join: ${tally.progress}`);
    return room;
  });
};

/** A channel in which all hear what each says in turn. */
const openChat = async (site: Site): Promise<Place> => {
  const settings = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
  const channel = { kind: "PROJECT", key: `bench-${Date.now()}`, name: "Bench", settings };
  const { id: channelId } = await post(site, "/chat/channels", channel);
  const rooms = await enter(site, "chat", { channelId });
  return {
    say: (n, sentMs) =>
      rooms[n % CLIENTS]!.request("chat.send", {
        content: `who trades a blue sword ${sentMs} ${n}`,
        clientMsgId: `m-${n}`,
      }),
    onHeard: (heard) => {
      for (const room of rooms)
        room.onMessage("chat.message", ({ data }: { data: { content: string } }) =>
          heard(Number(data.content.split(" ")[5])),
        );
    },
    leave: () => leaveAll(rooms),
  };
};

/** A board whose first place changes with each score: a patch for all who watch. */
const openBoard = async (site: Site): Promise<Place> => {
  const key = `bench-${Date.now()}`;
  const metric = { source: "CUSTOM" };
  await post(site, "/leaderboards", { key, name: "Bench", metric, operator: "LATEST", sort: "DESC" });
  const rooms = await enter(site, "leaderboard", { leaderboardKey: key, top: 10, around: 0 });
  let sent = { score: 0, ms: 0 };
  return {
    say: async (n, ms) => {
      sent = { score: n + 1, ms };
      await post(site, `/leaderboards/${key}/scores`, { playerId: "ext:member-0", score: n + 1 });
    },
    onHeard: (heard) => {
      for (const room of rooms) {
        let seen = 0;
        room.onStateChange((state: { top?: Iterable<{ score: number }> }) => {
          const [first] = state.top ?? [];
          // Several scores may come as one patch, which then counts for each of them.
          for (; first && seen < first.score; seen++) heard(sent.ms);
        });
      }
    },
    leave: () => leaveAll(rooms),
  };
};

/** Clients of socket.io's protocol in a room of the floor. */
const openRelay = async (port: number, isSaidByRest: boolean): Promise<Place> => {
  let hear: (sentMs: number) => void = () => undefined;
  const sockets = Array.from({ length: CLIENTS }, () => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/socket.io/?EIO=4&transport=websocket`);
    socket.on("message", (data: Buffer) => {
      const text = data.toString();
      if (text.startsWith("0")) socket.send("40");
      else if (text === "2") socket.send("3");
      else if (text.startsWith("42"))
        hear((JSON.parse(text.slice(2)) as [string, { sentMs: number }])[1].sentMs);
    });
    return socket;
  });
  await until(() => sockets.every(({ readyState }) => readyState === WebSocket.OPEN));
  await delay(SETTLE_MS);
  const said = (n: number, sentMs: number) => ({ sentMs, content: `who trades a blue sword ${n}` });
  const url = `http://127.0.0.1:${port}/say`;
  const headers = { "Content-Type": "application/json" };
  return {
    say: async (n, sentMs) =>
      isSaidByRest
        ? fetch(url, { method: "POST", headers, body: JSON.stringify(said(n, sentMs)) })
        : sockets[n % CLIENTS]!.send(`42${JSON.stringify(["say", said(n, sentMs)])}`),
    onHeard: (heard) => (hear = heard),
    leave: async () => sockets.forEach((socket) => socket.close()),
  };
};

const visit = async (open: Promise<Place>, costing: Costing, rate: number): Promise<Sample> => {
  const place = await open;
  const sample = await measure(place, costing, rate);
  await place.leave();
  return sample;
};

await onStages({ ...options, hasWorker: true }, async (servers) => {
  const floor = await start([FLOOR, "socket"], { env: {} });
  const places = [
    { name: "chat", open: openChat, rate: RATE, isByRest: false },
    { name: "board", open: openBoard, rate: PATCHED_PER_SECOND, isByRest: true },
  ];
  for (const { name, open, rate, isByRest } of places) {
    const ours = servers.map(({ name: build, stage: { sql }, pids, site }): Entrant => ({
      name: build,
      measure: () => visit(open(site), { pids, sql }, rate),
    }));
    const relay: Entrant = {
      name: "socket.io",
      measure: () => visit(openRelay(Number(floor.first), isByRest), { pids: [floor.pid] }, rate),
    };
    const title = `${name}: ${CLIENTS} clients, ${rate} a second`;
    await inTurns(title, [...ours, relay], { rounds: ROUNDS });
  }
  await floor.stop();
});
process.exit();
