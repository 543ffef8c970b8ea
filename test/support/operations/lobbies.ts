import { unique } from "./bodies.ts";
import type { Call, Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

/** Sweeps compare what was there before and after: nothing may end by itself meanwhile. */
const LASTING = { idleSeconds: 86_400, countdownSeconds: 300 };
const newLobby = <B extends object>(body: B) => ({
  mode: unique("mode"),
  maxPlayers: 4,
  settings: LASTING,
  ...body,
});

/** Every field that a lobby may have. */
const wholeLobby = (hostPlayerId: string) =>
  newLobby({
    hostPlayerId,
    name: "Room",
    minPlayers: 1,
    visibility: "PRIVATE",
    passcode: "sesame",
    metadata: { region: "eu" },
    privateData: { map: "m1" },
    settings: {
      countdownSeconds: 0,
      readyPolicy: "HOST",
      autoStart: false,
      allowLateJoin: true,
      allowSpectators: true,
      allowRematch: true,
      hostMigration: "RANDOM",
      graceSeconds: 10,
      inGameGraceSeconds: 20,
      maxGameSeconds: 3_600,
      idleSeconds: 86_400,
      endAuthority: "HOST",
      teams: { count: 2, size: 2, assignment: "BALANCED", balanceBy: "skill" },
    },
  });

const openFor = (side: Side, hostPlayerId: string, body: object = {}): Promise<string> =>
  side.make(
    "/lobbies",
    newLobby({ hostPlayerId, minPlayers: 1, settings: { ...LASTING, readyPolicy: "HOST" }, ...body }),
  );

/** A lobby of a host alone, who may start it. */
const hosted = async (side: Side): Promise<{ lobby: string; host: string }> => {
  const host = await side.player();
  return { lobby: await openFor(side, host), host };
};

type Body = (of: { lobby: string; host: string; side: Side }) => Promise<object> | object;

/** What a player does in a lobby of their own. */
const inOwn = (
  what: string,
  body: Body = () => ({}),
  before: readonly (readonly [string, object])[] = [],
): Known => ({
  call: async (side) => {
    const of = await hosted(side);
    for (const [first, given] of before)
      await side.send("post", `/api/v1/lobbies/${of.lobby}/${first}`, given);
    return { path: `/lobbies/${of.lobby}/${what}`, body: await body({ ...of, side }) };
  },
});

/** A foreign player, in the place of one's own. */
const withForeign =
  (what: string, body: (playerId: string) => object): NonNullable<Known["foreign"]> =>
  async (own, other): Promise<Call[]> => {
    const { lobby } = await hosted(own);
    return [{ path: `/lobbies/${lobby}/${what}`, body: body(await other.player()) }];
  };

const byHost: Body = ({ host }) => ({ playerId: host });
const acting = (what: string, more: object = {}): Pick<Known, "foreign"> => ({
  foreign: withForeign(what, (playerId) => ({ ...more, playerId })),
});
const started = [["start", { countdownSeconds: 300 }]] as const;

const withGuest =
  (what: string, body: (guest: string) => object): Known["call"] =>
  async (side) => {
    const { lobby } = await hosted(side);
    const guest = await side.player();
    await side.send("post", `/api/v1/lobbies/${lobby}/join`, { playerId: guest });
    return { path: `/lobbies/${lobby}/${what}`, body: body(guest) };
  };

const invited = async (side: Side): Promise<Call> => {
  const { lobby } = await hosted(side);
  const playerId = await side.player();
  await side.send("post", `/api/v1/lobbies/${lobby}/invites`, { playerIds: [playerId] });
  return { path: `/lobbies/${lobby}/invites/respond`, body: { playerId, accept: true } };
};

const inGame = async (side: Side): Promise<Call> => {
  const { lobby, host } = await hosted(side);
  const begun = await side.send("post", `/api/v1/lobbies/${lobby}/start`, { countdownSeconds: 0 });
  const result = { playerId: host, outcome: "WIN", rank: 1, team: 1, score: 5.5, stats: { kills: 3 } };
  return { path: `/lobbies/${lobby}/end`, body: { matchId: begun.body.matchId, results: [result] } };
};

/** The operations on lobbies. */
export const lobbyOperations: Readonly<Record<string, Known>> = {
  listLobbies: { call: () => ({ path: "/lobbies?mode=duel&meta.region=eu&hasSpace=true" }) },
  createLobby: {
    call: async (side) => ({ path: "/lobbies", body: wholeLobby(await side.player()) }),
    foreign: async (_own, other) => [{ path: "/lobbies", body: wholeLobby(await other.player()) }],
  },
  quickplayLobby: {
    success: 201,
    call: async (side) => ({
      path: "/lobbies/quickplay",
      body: {
        mode: unique("mode"),
        playerId: await side.player(),
        metadata: { a: 1 },
        partySize: 2,
      },
    }),
    foreign: async (_own, other) => [
      { path: "/lobbies/quickplay", body: { mode: "duel", playerId: await other.player() } },
    ],
  },
  getLobbyByCode: {
    call: async (side) => {
      const { lobby } = await hosted(side);
      const { body } = await side.send("get", `/api/v1/lobbies/${lobby}`);
      return { path: `/lobbies/by-code/${body.code}` };
    },
  },
  getLobby: { call: async (side) => ({ path: `/lobbies/${(await hosted(side)).lobby}` }) },
  updateLobby: {
    call: async (side) => {
      const { lobby } = await hosted(side);
      const { hostPlayerId: _host, mode: _mode, minPlayers: _min, ...fields } = wholeLobby("");
      return { path: `/lobbies/${lobby}`, body: { ...fields, version: 1 } };
    },
  },
  updateLobbyMember: {
    call: async (side) => {
      const { lobby, host } = await hosted(side);
      const body = { slot: 2, data: { hat: "red" }, actingPlayerId: host };
      return { path: `/lobbies/${lobby}/members/${host}`, body };
    },
    foreign: async (own, other) => {
      const { lobby, host } = await hosted(own);
      const body = { slot: 2, actingPlayerId: await other.player() };
      return [{ path: `/lobbies/${lobby}/members/${host}`, body }];
    },
  },
  joinLobby: {
    call: async (side) => {
      const settings = { ...LASTING, allowSpectators: true };
      const lobby = await openFor(side, await side.player(), { settings });
      const body = { playerId: await side.player(), passcode: "any", asSpectator: true, data: { a: 1 } };
      return { path: `/lobbies/${lobby}/join`, body };
    },
    ...acting("join"),
  },
  leaveLobby: { ...inOwn("leave", ({ host }) => ({ playerId: host, final: true })), ...acting("leave") },
  readyLobby: {
    ...inOwn("ready", ({ host }) => ({ playerId: host, ready: true })),
    ...acting("ready", { ready: true }),
  },
  beatLobby: { ...inOwn("heartbeat", byHost), ...acting("heartbeat") },
  startLobby: {
    ...inOwn("start", ({ host }) => ({ playerId: host, countdownSeconds: 0 })),
    ...acting("start"),
  },
  cancelLobbyStart: { ...inOwn("cancel-start", byHost, started), ...acting("cancel-start") },
  closeLobby: { ...inOwn("close", byHost), ...acting("close") },
  endLobbyGame: { call: inGame },
  kickFromLobby: {
    call: withGuest("kick", (playerId) => ({ playerId, ban: true, reason: "rude" })),
  },
  setLobbyHost: { call: withGuest("host", (playerId) => ({ playerId })) },
  inviteToLobby: {
    ...inOwn("invites", async ({ side }) => ({ playerIds: [await side.player()] })),
    foreign: withForeign("invites", (playerId) => ({ playerIds: [playerId] })),
  },
  answerLobbyInvite: { call: invited, ...acting("invites/respond", { accept: true }) },
};
