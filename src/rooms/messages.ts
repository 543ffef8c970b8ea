import { z } from "zod";
import type { ProjectPlan } from "../domain/evaluation/project-plan.ts";
import { sumBundles } from "../domain/evaluation/rewards/bundle.ts";
import { levelProgress } from "../domain/evaluation/xp/levels.ts";
import type { PlayerMessage } from "../domain/kernel/topics.ts";
import type { EventData, EventType } from "../domain/kernel/events/domain-events.ts";
import type { CustomData } from "../domain/kernel/events/events.ts";
import { newId } from "../domain/kernel/ids.ts";

/** The envelope of every server message. `seq` is present on lines of the player stream and nowhere else. */
export type Live<T> = { v: 1; id: string; at: string; seq?: number; data: T };

export const live = <T>(at: Date, data: T): Live<T> => ({ v: 1, id: newId(), at: at.toISOString(), data });

/**
 * Close codes of a socket. CONSENTED and FORBIDDEN are final; after any other a client joins again, with
 * `lastSeq` where the room has one.
 */
export const CLOSE = {
  /** The client left, or was REPLACED by a newer session of the same player. */
  CONSENTED: 4000,
  /** The server is shutting down, or an operator ended the session. */
  SHUTDOWN: 4001,
  /** Malformed or too many messages, or a refused join. */
  ERROR: 4002,
  /** More than SEND_BUFFER_MAX_BYTES waited for a client that reads too slowly. */
  SLOW: 4013,
  /** The token ended: join again with a new one. */
  EXPIRED: 4401,
  /** The player was banned or erased, or kicked from the lobby. */
  FORBIDDEN: 4403,
} as const;

/** Reason of closing a client that never acknowledged its join: an SDK that cannot read the answer. */
export const NOT_JOINED = "NOT_JOINED: the join was not acknowledged; use the Colyseus SDK 0.18";

/** Why the server ends a session: sent as `session.closed` before the socket closes. */
export type ClosedReason =
  | "EXPIRED"
  | "REPLACED"
  | "BANNED"
  | "ERASED"
  | "SHUTDOWN"
  | "REMOVED"
  | "DISCONNECTED"
  | LobbyClosedReason;

/** The player was kicked, is no longer in the lobby, or the lobby is over. */
export type LobbyClosedReason = "KICKED" | "LEFT" | "CLOSED";

/**
 * Close codes of a lost connection: the seat is kept for a while. With 4010 the SDK closes when its browser
 * goes offline.
 */
export const DROPPED: ReadonlySet<number> = new Set([1001, 1005, 1006, 4010]);

export const SEND_BUFFER_MAX_BYTES = 256 * 1024;
export const SESSIONS_MAX = 5;
export const MESSAGES_PER_SECOND_MAX = 20;
export const HEARTBEAT_SECONDS = 5;
export const EXPIRY_NOTICE_SECONDS = 60;
export const RECONNECT_SECONDS = 20;

/** The project's definitions that messages show. */
export type ShownDefinitions = Pick<ProjectPlan, "curve" | "levels">;

type Show = { name: string; data: (data: never, shown: ShownDefinitions) => unknown };

const show = <T extends EventType>(
  name: string,
  data: (data: EventData<T>, shown: ShownDefinitions) => unknown,
): Show => ({ name, data });

/** The room belongs to one player: messages do not name them. */
const own = <D extends { playerId: string; externalUserId: string }>({
  playerId: _playerId,
  externalUserId: _externalUserId,
  ...data
}: D) => data;

const as = (name: string): Show => ({ name, data: (data) => data });
const streak = (change: string): Show => ({
  name: "player.streak",
  data: (data) => ({ ...own(data), change }),
});

const CUSTOM: Show = {
  name: "custom.event",
  data: ({ eventType, properties }: CustomData) => ({ eventType, properties }),
};

/** Lines whose live form differs from the domain event; every other line keeps its name and data. */
const SHOWN: Readonly<Record<string, Show>> = {
  "player.updated": show<"player.updated">("player.updated", ({ changed, after }) => ({
    changed,
    player: after,
  })),
  "player.xp_granted": show<"player.xp_granted">("player.xp", ({ amount, xp, level, cause }, shown) => ({
    amount,
    xp,
    level,
    levelProgress: progressOf(shown, { xp, level }),
    cause,
  })),
  "player.level_up": show<"player.level_up">("player.level_up", (data, { levels }) => ({
    ...data,
    rewards: rewardsOf(levels, data.previousLevel, data.newLevel),
  })),
  "player.currency_granted": show<"player.currency_granted">(
    "player.currency",
    ({ currencyKey, amount, balance, cause }) => ({ currencyKey, delta: amount, balance, cause }),
  ),
  "player.currency_spent": show<"player.currency_spent">(
    "player.currency",
    ({ currencyKey, amount, balance, cause }) => ({ currencyKey, delta: -amount, balance, cause }),
  ),
  "player.currency_expired": show<"player.currency_expired">(
    "player.currency",
    ({ currencyKey, amount, balance }) => ({ currencyKey, delta: -amount, balance, cause: EXPIRY }),
  ),
  "player.lives_changed": show<"player.lives_changed">("player.lives", ({ delta, lives }) => ({
    delta,
    lives,
  })),
  "player.badge_earned": as("player.badge"),
  "player.badge_revoked": as("player.badge"),
  "player.streak_extended": streak("EXTENDED"),
  "player.streak_at_risk": streak("AT_RISK"),
  "player.streak_frozen": streak("FROZEN"),
  "player.streak_broken": streak("BROKEN"),
  "player.streak_repaired": streak("REPAIRED"),
  "player.boost_started": show<"player.boost_started">("player.boost", ({ boost }) => ({
    boost,
    state: "STARTED",
  })),
  "player.boost_ended": show<"player.boost_ended">("player.boost", ({ by, ...data }) => ({
    boost: own(data),
    state: "ENDED",
    by,
  })),
  "player.reward_granted": as("player.reward"),
  "quest.updated": show<"quest.updated">("quest.updated", ({ quest, change }) => ({ quest, change })),
  "quest.submission_approved": show<"quest.submission_approved">("quest.submission_approved", own),
  "quest.submission_rejected": show<"quest.submission_rejected">("quest.submission_rejected", own),
  "adventure.updated": show<"adventure.updated">("adventure.updated", own),
  "inbox.message": show<"inbox.message">("inbox.message", own),
};

const EXPIRY = { kind: "EXPIRY" } as const;

const progressOf = ({ curve, levels }: ShownDefinitions, of: { xp: number; level: number }) => {
  const progress = levelProgress(curve, of);
  return { ...progress, levelName: levels.get(progress.level)?.name ?? null };
};

/** Returns the rewards of the levels from `from + 1` to `to`; null for none. */
const rewardsOf = (levels: ShownDefinitions["levels"], from: number, to: number) => {
  if (levels.size === 0) return null;
  const reached = [...levels].filter(([level]) => level > from && level <= to);
  return sumBundles(reached.toSorted(([a], [b]) => a - b).map(([, { rewards }]) => rewards));
};

/** An integrator's own types have a prefix, so that none can be mistaken for one of the service's. */
const shownAs = (type: string): Show | undefined => {
  if (type.startsWith("custom.")) return CUSTOM;
  return Object.hasOwn(SHOWN, type) ? SHOWN[type] : undefined;
};

/** Converts one line of the player stream to exactly one live message. */
export const livePlayerMessage = (
  { seq, id, type, data, at }: PlayerMessage,
  shown: ShownDefinitions,
): { name: string; message: Live<unknown> } => {
  const form = shownAs(type);
  const body = form ? form.data(data as never, shown) : data;
  return { name: form?.name ?? type, message: { v: 1, id, at, seq, data: body } };
};

const LineState = z.object({
  displayName: z.string().nullish(),
  xp: z.number().optional(),
  level: z.number().optional(),
  newLevel: z.number().optional(),
});

/** Returns the fields of the room's schema state that a line sets. */
export const stateOf = ({
  type,
  data,
}: PlayerMessage): { displayName?: string; xp?: number; level?: number } => {
  const said = LineState.safeParse(type === "player.updated" ? data["after"] : data);
  if (!said.success) return {};
  const { displayName, xp, level = said.data.newLevel } = said.data;
  return {
    ...(displayName === undefined ? {} : { displayName: displayName ?? "" }),
    ...(xp === undefined ? {} : { xp }),
    ...(level === undefined ? {} : { level }),
  };
};
