import { z } from "zod";
import { LOBBY_PLAYERS_MAX } from "./limits.ts";
import type { LobbySettings, LobbyTeams } from "../../kernel/events/lobby-views.ts";

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
  const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  const { teams: kept, ...rest } = before;
  const next: LobbyTeams | null | undefined = teams === undefined ? kept : teams;
  return { ...rest, ...given, ...(next ? { teams: next } : {}) };
};
