import { createPrivateKey, randomUUID } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import { Client, type Room } from "@colyseus/sdk";
import type { WebSocket } from "ws";
import type { PlayerRoom } from "../../../src/rooms/player-room.ts";
import { playerRoomId } from "../../../src/rooms/room-ids.ts";
import { createTokens } from "../../../src/domain/accounts/auth/tokens.ts";
import type { Live } from "../../../src/rooms/messages.ts";
import { type Answer, aWsToken, type Tenant, type TestApp } from "../app/app.ts";
import { anAddress, ANSWER_LIMIT_MS, type Client as HttpClient, must } from "../http/client.ts";
import { eventually } from "../eventually.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests read messages of every shape
export type Heard = Live<any> & { name: string };

// The SDK tells of its reconnections on the console.
for (const name of ["info", "warn"] as const) {
  const say = console[name].bind(console);
  console[name] = (...parts: unknown[]) => {
    if (!/Colyseus reconnection|connection was closed unexpectedly/.test(String(parts[0]))) say(...parts);
  };
}

/** A room as a client sees it, with everything it heard. */
export type Listener = {
  // oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
  room: Room<any, any>;
  heard: Heard[];
  /** What the player stream told, in the order it came. */
  stream: Heard[];
  named(name: string): Heard[];
  /** Set once the room is left for good. */
  left: { code: number; reason: string | undefined } | undefined;
};

/** Joins with the SDK and listens from the first message on. */
export const join = async (
  api: HttpClient,
  token: string,
  name: string,
  options: object = {},
): Promise<Listener> => {
  const client = new Client(api.url);
  client.auth.token = token;
  const room = await client.joinOrCreate(name, options);
  return listenTo(room);
};

const listenTo = (room: Listener["room"]): Listener => {
  const heard: Heard[] = [];
  const listener: Listener = {
    room,
    heard,
    get stream() {
      return heard.filter(({ seq }) => seq !== undefined);
    },
    named: (wanted) => heard.filter(({ name }) => name === wanted),
    left: undefined,
  };
  room.onMessage(
    "*",
    (type: string | number, message: Heard) => void heard.push({ ...message, name: String(type) }),
  );
  room.onLeave((code: number, reason?: string) => {
    listener.left = { code, reason };
  });
  return listener;
};

type MatchmakeOptions = { token?: string; body?: unknown; limitMs?: number; address?: string };

/** Asks for a seat without the SDK, to see status and body. */
export const matchmake = async (
  api: HttpClient,
  path: string,
  { token, body = {}, limitMs = ANSWER_LIMIT_MS, address = anAddress() }: MatchmakeOptions = {},
): Promise<Answer> => {
  const response = await fetch(`${api.url}/matchmake/${path}`, {
    method: "POST",
    signal: AbortSignal.timeout(limitMs),
    headers: {
      "Content-Type": "application/json",
      "X-Forwarded-For": address,
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
};

export type Player = { token: string; playerId: string; externalUserId: string };

/** A player of a test's own, with a token. */
export const aPlayer = async (api: HttpClient, key: string): Promise<Player> => {
  const externalUserId = `player-${randomUUID()}`;
  return { ...(await aWsToken(api, key, externalUserId)), externalUserId };
};

/** A token of a player that was made `ageSeconds` ago. */
export const anOldToken = async (
  { app }: TestApp,
  tenant: Tenant,
  playerId: string,
  ageSeconds: number,
): Promise<string> => {
  const privateKey = createPrivateKey(app.config.secrets.jwtPrivateKey);
  const clock = () => new Date(Date.now() - ageSeconds * 1_000);
  const tokens = createTokens({ privateKey, issuer: app.config.publicUrl, clock });
  const { projectId: pid, tenantId: tid } = tenant;
  return (await tokens.signWs({ sub: playerId, pid, tid, kind: "player" })).token;
};

export const grantXp = async (api: HttpClient, key: string, playerId: string, amount = 10): Promise<void> => {
  must(await api.post(`/api/v1/players/${playerId}/xp`, { amount }, { key }), 201);
};

export const seqs = (listener: Listener): number[] => listener.stream.map(({ seq }) => seq!);

export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** Waits until a client has heard the stream up to `seq`. */
export const heardUpTo = (listener: Listener, seq: number): Promise<boolean> =>
  eventually(() => (seqs(listener).at(-1) ?? 0) >= seq, { label: `the stream reaches ${seq}` });

/** The server's side of a player's room. */
export const serverRoom = (projectId: string, playerId: string): PlayerRoom =>
  matchMaker.getLocalRoomById(playerRoomId(projectId, playerId)) as unknown as PlayerRoom;

/** Ends a connection without a word, as a network does. */
export const cutOff = (projectId: string, playerId: string, sessionId: string): void => {
  (serverRoom(projectId, playerId).clients.get(sessionId)!.ref as WebSocket).terminate();
};
