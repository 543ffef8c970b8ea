import { setTimeout as delay } from "node:timers/promises";
import { Client, type Room } from "@colyseus/sdk";
import { SELF_TEST, XP_BOARD } from "./demo-game.ts";

const PLAYER = "self-test";
const STEP_MAX_MS = 5_000;
const POLL_MS = 2;

type XpMessage = { data: { xp: number; cause: { eventId?: string } } };
type BoardState = { me?: Map<string, { rank: number; score: number }> };
type Target = { url: string; key: string };

/**
 * Sends one real event over HTTP and follows it: rule, XP, the player's socket, rank, the board's socket.
 * @param url the server's address as seen from this machine
 * @returns the time until both sockets had shown the event, in ms
 * @throws Error naming the step that failed
 */
export const selfTest = async (target: Target): Promise<number> => {
  const { token } = await post<{ token: string }>(target, "/auth/ws-token", { externalUserId: PLAYER });
  const client = new Client(target.url);
  client.auth.token = token;
  const rooms: Room[] = [];
  try {
    const player = await join(rooms, "player", () => client.joinOrCreate("player"));
    const received: XpMessage[] = [];
    player.onMessage("*", (type: unknown, message: unknown) => {
      if (type === "player.xp") received.push(message as XpMessage);
    });
    const board = await join(rooms, "leaderboard", () =>
      client.joinOrCreate<BoardState>("leaderboard", { leaderboardKey: XP_BOARD }),
    );
    return await followEvent(target, received, board);
  } finally {
    for (const room of rooms) await room.leave();
  }
};

const join = async <T>(rooms: Room[], name: string, open: () => Promise<Room<T>>): Promise<Room<T>> => {
  try {
    const room = await open();
    rooms.push(room);
    return room;
  } catch (error) {
    throw new Error(`the room "${name}" could not be joined: ${(error as Error).message}`, { cause: error });
  }
};

type Result = { eventId: string; status: string; message: string; effects?: { type: string }[] };

const followEvent = async (
  target: Target,
  received: readonly XpMessage[],
  board: Room<BoardState>,
): Promise<number> => {
  const startMs = performance.now();
  const event = { externalUserId: PLAYER, eventType: SELF_TEST, properties: {} };
  const { eventId, status, message, effects } = await post<Result>(target, "/events?wait=true", event);
  if (status !== "PROCESSED") throw new Error(`the event is ${status}: ${message}`);
  if (!effects?.some(({ type }) => type === "player.xp_granted"))
    throw new Error(`the event was processed, but no rule granted XP; is the rule for ${SELF_TEST} active?`);
  const xpMessage = await until("the player's socket did not hear of the XP", () =>
    received.find(({ data }) => data.cause.eventId === eventId),
  );
  await until("the board's socket did not show the player's new rank", () =>
    [...(board.state.me?.values() ?? [])].find(({ rank, score }) => rank > 0 && score === xpMessage.data.xp),
  );
  return performance.now() - startMs;
};

const until = async <T>(problem: string, look: () => T | undefined): Promise<T> => {
  const deadlineMs = performance.now() + STEP_MAX_MS;
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    if (performance.now() > deadlineMs) throw new Error(`${problem} within ${STEP_MAX_MS / 1_000} s`);
    await delay(POLL_MS);
  }
};

const post = async <T>({ url, key }: Target, path: string, body: object): Promise<T> => {
  const response = await fetch(`${url}/api/v1${path}`, {
    method: "POST",
    headers: { "X-API-Key": key, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(STEP_MAX_MS),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${answer.slice(0, 300)}`);
  return JSON.parse(answer) as T;
};
