import { setTimeout as delay } from "node:timers/promises";
import { Client, type Room } from "@colyseus/sdk";
import { z } from "zod";
import { keyHeader } from "./api-flags.ts";
import { type Api, callApi } from "./call-api.ts";
import { SELF_TEST, XP_BOARD } from "./demo-game.ts";

const PLAYER = "self-test";
const STEP_MAX_MS = 5_000;
const POLL_MS = 2;

type XpMessage = { data: { xp: number; cause: { eventId?: string } } };
type BoardState = { me?: Map<string, { rank: number; score: number }> };
const Token = z.object({ token: z.string() });
const Result = z.object({
  eventId: z.string(),
  status: z.string(),
  message: z.string().nullish(),
  effects: z.array(z.object({ type: z.string() })).optional(),
});

/**
 * Sends one real event over HTTP and follows it: rule, XP, the player's socket, rank, the board's socket.
 * @param url the server's address as seen from this machine
 * @returns the time until both sockets had shown the event, in ms
 * @throws Error naming the step that failed
 */
export const selfTest = async ({ url, key }: { url: string; key: string }): Promise<number> => {
  const stop = new AbortController().signal;
  const api = { url, headers: keyHeader(key), stop, timeoutMs: STEP_MAX_MS };
  const { token } = await callApi(api, "/auth/ws-token", Token, { externalUserId: PLAYER });
  const client = new Client(url);
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
    return await followEvent(api, received, board);
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

const followEvent = async (
  api: Api,
  received: readonly XpMessage[],
  board: Room<BoardState>,
): Promise<number> => {
  const startMs = performance.now();
  const event = { externalUserId: PLAYER, eventType: SELF_TEST, properties: {} };
  const { eventId, status, message, effects } = await callApi(api, "/events?wait=true", Result, event);
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
