import { startApp } from "../app/app.ts";
import { profile, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const DAY_MS = 86_400_000;

const ofPlayer = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({
    path: `/players/${await side.player()}${suffix}`,
    ...(body === undefined ? {} : { body }),
  }),
});

/** An id at another provider that a player has, as a path. */
const anIdentity = async (side: Side): Promise<string> => {
  const api = await startApp();
  const [player, externalId] = [await side.player(), unique("device")];
  const path = `/players/${player}/identities`;
  await api.post(`/api/v1${path}`, { provider: "device", externalId }, { key: side.tenant.key });
  return `${path}/device/${encodeURIComponent(externalId)}`;
};

const anAnonymous = async (side: Side): Promise<string> => {
  const api = await startApp();
  const externalUserId = unique("anonymous");
  await api.post("/api/v1/players", { externalUserId }, { key: side.tenant.key });
  return externalUserId;
};

const strategy = {
  xp: "MAX",
  currencies: "KEEP_TARGET",
  leaderboards: "KEEP_TARGET",
  profile: "SOURCE_WINS",
};

export const playerOperations: Record<string, Known> = {
  identifyPlayers: {
    call: () => ({
      path: "/players/batch",
      body: { players: [{ externalUserId: unique("user"), tags: ["a"], ...profile }] },
    }),
  },
  deletePlayer: ofPlayer(),
  setPlayerStatus: ofPlayer("/status", { status: "BANNED", reason: "Cheating" }),
  aliasPlayer: {
    call: async (side) => ({
      path: "/players/alias",
      body: { anonymousId: await anAnonymous(side), externalUserId: unique("user") },
    }),
  },
  listPlayerIdentities: ofPlayer("/identities"),
  addPlayerIdentity: {
    success: 201,
    call: async (side) => ({
      path: `/players/${await side.player()}/identities`,
      body: { provider: "device", externalId: unique("device") },
    }),
  },
  removePlayerIdentity: { call: async (side) => ({ path: await anIdentity(side) }) },
  mergePlayer: {
    call: async (side) => ({
      path: `/players/${await side.player()}/merge`,
      body: { sourcePlayerId: await side.player(), strategy, dryRun: false },
    }),
    foreign: async (own, other) => [
      {
        path: `/players/${await own.player()}/merge`,
        body: { sourcePlayerId: await other.player() },
      },
    ],
  },
  getPlayerState: {
    call: async (side) => {
      const player = await side.player();
      return { path: `/players/${player}/state?at=${encodeURIComponent(new Date().toISOString())}` };
    },
  },
  listPlayerMetrics: ofPlayer("/metrics?limit=5"),
  listPlayerActivity: ofPlayer("/activity?types=player.created&limit=5"),
  getPlayerRecap: {
    call: async (side) => {
      const [from, to] = [new Date(Date.now() - DAY_MS), new Date()].map((at) => at.toISOString());
      return { path: `/players/${await side.player()}/recap?from=${from}&to=${to}` };
    },
  },
  exportPlayer: ofPlayer("/export", {}),
  erasePlayer: ofPlayer("/erase", { dryRun: true, reason: "Asked for" }),
};
