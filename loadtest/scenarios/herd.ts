import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { startTcpProxy } from "../../test/support/faults/tcp-proxy.ts";
import type { LoadContext, Scenario } from "../scenario.ts";
import {
  type AnyRoom,
  forEachAtOnce,
  joinRoom,
  type LoadPlayer,
  makePlayers,
  until,
  leaveAll,
} from "../support/clients.ts";

/** How long the herd may take to be back, in ms. */
const BACK_MAX_MS = 60_000;
/** Without jitter on purpose. */
const RETRY_MS = 500;

const join = async (player: LoadPlayer): Promise<AnyRoom> => {
  const room = await joinRoom(player, "player", {});
  // A herd that begins anew, as after a restart: the SDK would take its seats again.
  room.reconnection.enabled = false;
  return room;
};

const joinAgain = async (
  { tally }: LoadContext,
  player: LoadPlayer,
  deadlineMs: number,
): Promise<AnyRoom> => {
  for (;;) {
    try {
      return await join(player);
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
      tally.time("refused or failed tries", 0);
      await delay(RETRY_MS);
    }
  }
};

const run = async (context: LoadContext): Promise<void> => {
  const { site, tally, clients, say, count } = context;
  const { hostname, port } = new URL(site.url);
  const proxy = await startTcpProxy(hostname, Number(port));
  try {
    say("players");
    const url = `http://127.0.0.1:${proxy.port}`;
    const players = await makePlayers(site, clients, {
      tally,
      prefix: `herd-${randomUUID().slice(0, 8)}`,
      url,
      count,
    });
    say("joins");
    const rooms: (AnyRoom | undefined)[] = [];
    let joined = 0;
    await forEachAtOnce(players, async (player, n) => {
      rooms[n] = await tally.measure("join unloaded", () => join(player));
      count(++joined, clients);
    });
    let lost = 0;
    for (const room of rooms) room?.onLeave(() => void lost++);
    say("cut");
    await proxy.cut();
    await until(() => lost === rooms.filter(Boolean).length, BACK_MAX_MS, "every socket has noticed");
    await proxy.restore();
    say("everybody comes back");
    const startMs = performance.now();
    const back = await Promise.all(
      players.map((player) =>
        joinAgain(context, player, startMs + BACK_MAX_MS).then(
          (room) => {
            tally.time("cut to back", performance.now() - startMs);
            return room;
          },
          tally.fail.bind(tally, "cut to back") as (error: unknown) => undefined,
        ),
      ),
    );
    tally.delivered("players back", { expected: clients, received: back.filter(Boolean).length });
    say("leaves");
    await leaveAll(back);
  } finally {
    await proxy.stop();
  }
};

export const herd: Scenario = {
  name: "herd",
  about: "all sockets are cut at once, and everybody joins again at the same moment",
  defaults: { clients: 500, seconds: 0, rate: 0 },
  run,
};
