import { availableOf as availableIn, balanceNow } from "../currencies/balance.ts";
import { currentLives } from "../lives/lives.ts";
import type { Turn } from "../turn.ts";
import { compilePath, type Reader } from "./paths.ts";
import {
  ATTRIBUTES,
  currencyOf,
  isReferenceField,
  PLAYER,
  type PlayerField,
  PROPERTIES,
  type Reference,
  type ReferenceField,
  referentOf,
} from "./references.ts";

/** Resolves a value; undefined where there is none. */
export type Lookup = (turn: Turn) => unknown;

/** Null fields are missing data. */
const PLAYER_LOOKUPS: Record<PlayerField, Lookup> = {
  xp: ({ player }) => player.xp,
  level: ({ player }) => player.level,
  lives: (turn) => currentLives(turn),
  status: ({ player }) => player.status,
  timezone: ({ player }) => player.timezone ?? undefined,
  locale: ({ player }) => player.locale ?? undefined,
  country: ({ player }) => player.country ?? undefined,
  tags: ({ player }) => player.tags,
  createdAt: ({ player }) => player.createdAt.toISOString(),
  lastSeenAt: ({ player }) => player.lastSeenAt?.toISOString(),
  externalUserId: ({ player }) => player.externalUserId,
};

/** Returns the player's available balance, without held amounts. Undefined for an unknown currency. */
const availableOf = (turn: Turn, currencyKey: string): number | undefined => {
  if (!turn.project.currencies.has(currencyKey)) return undefined;
  return availableIn(balanceNow(turn, currencyKey)!);
};

/** Reads a value of a player by a name for which `isPlayerValue` holds. */
export const compilePlayerValue = (field: string): Lookup => {
  const currencyKey = currencyOf(field);
  if (currencyKey !== undefined) return (turn) => availableOf(turn, currencyKey);
  if (!field.startsWith(ATTRIBUTES)) return PLAYER_LOOKUPS[field as PlayerField];
  const read = compilePath(field.slice(ATTRIBUTES.length));
  return ({ player }) => read(player.attributes);
};

const REFERENCE_LOOKUPS: Record<ReferenceField, Lookup> = {
  "event.type": ({ event }) => event.type,
  "event.timestamp": ({ event }) => new Date(event.at).toISOString(),
  "player.id": ({ player }) => player.id,
  "player.displayName": ({ player }) => player.displayName ?? undefined,
};

const readerOf = (referent: string): Lookup => {
  if (referent.startsWith(PROPERTIES)) {
    const read: Reader = compilePath(referent.slice(PROPERTIES.length));
    return ({ event }) => read(event.properties);
  }
  if (isReferenceField(referent)) return REFERENCE_LOOKUPS[referent];
  return compilePlayerValue(referent.slice(PLAYER.length));
};

export const compileReference = (reference: Reference): Lookup => {
  const { default: fallback } = reference;
  const read = readerOf(referentOf(reference));
  return fallback === undefined ? read : (turn) => read(turn) ?? fallback;
};
