import { randomUUID } from "node:crypto";
import { post } from "../../bench/support/setup.ts";
import type { LoadContext, Scenario } from "../scenario.ts";
import {
  type AnyRoom,
  atRate,
  forEachAtOnce,
  joinRoom,
  type LoadPlayer,
  makePlayers,
  until,
} from "../support/clients.ts";

const ARRIVED_MAX_MS = 10_000;
const UNLIMITED = {
  slowModeSeconds: 0,
  burstMessages: 0,
  minuteMessages: 0,
  profanity: "OFF",
  links: "ALLOW",
};

type Message = { data: { seq: number; content: string } };
/** What one reader has heard, in order. */
type Reader = { room: AnyRoom; seqs: number[] };

const read = async (
  { tally }: LoadContext,
  player: LoadPlayer,
  channelId: string,
): Promise<Reader | undefined> => {
  const seqs: number[] = [];
  const room = await tally.measure("join chat", () => joinRoom(player, "chat", { channelId }));
  if (!room) return undefined;
  room.onMessage("chat.message", ({ data }: Message) => {
    seqs.push(data.seq);
    const sentMs = Number(data.content.split(" ")[1]);
    tally.time("send to a reader", performance.now() - sentMs);
  });
  return { room, seqs };
};

const run = async (context: LoadContext): Promise<void> => {
  const { site, tally, clients, seconds, rate, say } = context;
  const key = `load-${randomUUID().slice(0, 8)}`;
  const channel = await post(site, "/chat/channels", {
    kind: "PROJECT",
    key,
    name: "Load test",
    settings: UNLIMITED,
  });
  say("players");
  const players = await makePlayers(site, clients, { tally, prefix: key });
  say("joins");
  const readers: (Reader | undefined)[] = [];
  await forEachAtOnce(players, async (player, n) => {
    readers[n] = await read(context, player, String(channel["id"]));
  });
  const there = readers.filter((reader) => reader !== undefined);
  say("messages");
  let acknowledged = 0;
  await atRate({ rate, seconds }, async (n) => {
    const { room } = there[n % there.length]!;
    const content = `message ${performance.now()} ${n}`;
    const ack = await tally.measure("send to acknowledgement", () =>
      room.request("chat.send", { content, clientMsgId: `${key}-${n}` }),
    );
    if (ack) acknowledged++;
  });
  say("last deliveries");
  await until(
    () => there.every(({ seqs }) => seqs.length >= acknowledged),
    ARRIVED_MAX_MS,
    "all messages",
  ).catch((error: unknown) => tally.fail("deliveries", error));
  for (const { seqs } of there) {
    const isInOrder = seqs.every((seq, i) => i === 0 || seq === seqs[i - 1]! + 1);
    if (!isInOrder) tally.fail("order", new Error("a reader heard messages out of order or with a gap"));
    tally.delivered("messages to readers", { expected: acknowledged, received: seqs.length });
  }
  say("leaves");
  await Promise.all(there.map(({ room }) => room.leave()));
};

export const chat: Scenario = {
  name: "chat",
  about: "everybody in one channel hears everything; acknowledgements, deliveries and their order",
  defaults: { clients: 100, seconds: 10, rate: 50 },
  run,
};
