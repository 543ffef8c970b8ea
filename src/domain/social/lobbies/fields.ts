import { z } from "zod";
import type { LobbySettings, LobbyTeams } from "../../kernel/events/social-views.ts";
import type { Json } from "../../kernel/events/events.ts";
import { fitsBytes } from "../../kernel/hostile-json.ts";
import { definedOf } from "../../kernel/json.ts";

/** Maximum size of a signal's payload as JSON. */
export const SIGNAL_MAX_BYTES = 2_048;
/** Maximum number of signals of one member per second, over all their sockets in a room. */
export const SIGNALS_PER_SECOND_MAX = 20;
/** Maximum number of members addressed by one signal. */
export const SIGNAL_TO_MAX = 100;
/** Maximum number of requests that wait in one lobby room. */
export const REQUESTS_WAITING_MAX = 200;
/** Maximum number of sockets and reserved seats in one lobby room. */
export const LOBBY_SOCKETS_MAX = 1_000;
/** Maximum number of lobbies in one live list. */
export const LOBBIES_SHOWN_MAX = 100;
/** Maximum size of a live list's metadata filter, as JSON. */
export const LOBBIES_FILTER_MAX_BYTES = 1_024;

/** Maximum number of a project's lobbies that are not closed. */
export const OPEN_LOBBIES_MAX = 10_000;
/** Maximum number of players in one lobby. */
export const LOBBY_PLAYERS_MAX = 100;
/** Maximum number of spectators in one lobby. */
export const SPECTATORS_MAX = 100;
/** Maximum bytes of a lobby's `metadata`, and of its `privateData`, as JSON. */
export const LOBBY_DATA_MAX_BYTES = 4 * 1024;
/** Maximum bytes of a member's `data`, and of the `stats` of a result, as JSON. */
export const MEMBER_DATA_MAX_BYTES = 1024;
const LOBBY_NAME_MAX = 100;
export const PASSCODE_MAX = 64;
/** Maximum number of players per invitation request. */
export const INVITES_AT_ONCE = 20;
/** Maximum number of a lobby's unanswered invitations. */
export const INVITES_OPEN_MAX = 200;
/** How long an invitation can be accepted, in ms. */
export const INVITE_MS = 10 * 60_000;
/** How long an open lobby waits for a game, in ms. */
export const LOBBY_LIFE_MS = 24 * 3_600_000;
/** How long a heartbeat keeps a member present, in ms. */
export const HEARTBEAT_MS = 60_000;
/** How long a closed lobby can be read, in ms. */
export const CLOSED_KEPT_MS = 7 * 24 * 3_600_000;

const DAY_SECONDS = 86_400;

const Teams = z.strictObject({
  count: z.int().min(1).max(LOBBY_PLAYERS_MAX),
  size: z.int().min(1).max(LOBBY_PLAYERS_MAX),
  assignment: z.enum(["MANUAL", "BALANCED", "RANDOM"]).default("MANUAL"),
  balanceBy: z
    .string()
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/, "must be 1 to 64 of A-Z a-z 0-9 _ -")
    .optional()
    .meta({ description: "For BALANCED: a numeric attribute of players; a missing one counts as 0" }),
});

const seconds = (max: number, description: string) => z.int().min(0).max(max).meta({ description });

/**
 * Some of a lobby's settings; absent ones keep their value, or have their default. Unknown ones are refused:
 * a setting that nobody reads would look as if it were set.
 */
export const SettingsPatch = z
  .strictObject({
    countdownSeconds: seconds(300, "From start to game; 0 starts at once"),
    readyPolicy: z.enum(["ALL", "MAJORITY", "HOST"]),
    autoStart: z.boolean(),
    allowLateJoin: z.boolean(),
    allowSpectators: z.boolean(),
    allowRematch: z.boolean(),
    hostMigration: z.enum(["OLDEST", "RANDOM", "CLOSE"]),
    graceSeconds: seconds(600, "How long the seat of an absent player is kept"),
    inGameGraceSeconds: seconds(3_600, "As graceSeconds, in a game"),
    maxGameSeconds: z.int().min(1).max(DAY_SECONDS),
    idleSeconds: z.int().min(10).max(DAY_SECONDS),
    endAuthority: z.enum(["SERVER", "HOST"]),
    teams: Teams.nullable(),
  })
  .partial();
export type SettingsPatch = z.output<typeof SettingsPatch>;

export const DEFAULT_LOBBY_SETTINGS: LobbySettings = {
  countdownSeconds: 5,
  readyPolicy: "ALL",
  autoStart: false,
  allowLateJoin: false,
  allowSpectators: false,
  allowRematch: false,
  hostMigration: "OLDEST",
  graceSeconds: 30,
  inGameGraceSeconds: 60,
  maxGameSeconds: 14_400,
  idleSeconds: 600,
  endAuthority: "SERVER",
};

/** Merges changed settings; `teams: null` removes teams. */
export const mergeSettings = (
  before: LobbySettings,
  { teams, ...patch }: SettingsPatch = {},
): LobbySettings => {
  const { teams: kept, ...rest } = before;
  const next: LobbyTeams | null | undefined = teams === undefined ? kept : teams;
  return { ...rest, ...definedOf(patch), ...(next ? { teams: next } : {}) };
};

/** Free-form JSON with a maximum size in bytes. */
export const Data = (maxBytes: number) =>
  z
    .record(z.string().max(255), z.unknown())
    .refine((value) => fitsBytes(value, maxBytes), `must be at most ${maxBytes / 1024} KiB of JSON`)
    .transform((value): Json => value)
    .meta({ description: `At most ${maxBytes / 1024} KiB of JSON` });

export const Name = z.string().trim().min(1).max(LOBBY_NAME_MAX);

export const PlayersMax = z.int().min(1).max(LOBBY_PLAYERS_MAX);

export const Passcode = z.string().min(1).max(PASSCODE_MAX);

export const Visibility = z
  .enum(["PUBLIC", "PRIVATE", "FRIENDS"])
  .refine((value) => value !== "FRIENDS", "FRIENDS is not available yet")
  .meta({ description: "PRIVATE: in no list of players, found by id or code. FRIENDS: not available yet" });

/** A player by id, or by `ext:` and the integrator's id. */
export const PlayerText = z
  .string()
  .min(1)
  .max(300)
  .overwrite((ref) => (ref.startsWith("ext:") ? ref : ref.toLowerCase()))
  .meta({ description: "UUID, or ext: and the externalUserId" });
