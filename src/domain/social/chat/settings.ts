import { z } from "zod";
import type { ChannelKind, ChannelSettings } from "../../kernel/events/chat-views.ts";

/** Maximum code points of a message, whatever a channel's `maxLength` is. */
export const CONTENT_MAX = 2_000;
const DOMAINS_MAX = 100;
const DOMAIN_MAX = 253;
const DAY_SECONDS = 86_400;

const count = (max: number) => z.int().min(0).max(max);

/** Explicit settings of a channel; absent ones have the default of the channel's kind. */
export const GivenSettings = z
  .strictObject({
    slowModeSeconds: count(3_600).meta({ description: "Between two messages of a player; 0 is off" }),
    maxLength: z.int().min(1).max(CONTENT_MAX).meta({ description: "Code points of a message" }),
    links: z.enum(["ALLOW", "ALLOW_LIST", "BLOCK"]),
    allowedDomains: z.array(z.string().min(1).max(DOMAIN_MAX)).max(DOMAINS_MAX),
    profanity: z.enum(["OFF", "MASK", "BLOCK", "HOLD"]),
    reactions: z.boolean(),
    mentions: z.enum(["ALL", "NO_EVERYONE", "OFF"]),
    readOnly: z.boolean().meta({ description: "Moderators and servers only may speak" }),
    minLevelToPost: count(1_000_000),
    minAccountAgeSeconds: count(365 * DAY_SECONDS),
    retentionDays: z.int().min(1).max(3_650),
    editWindowSeconds: count(30 * DAY_SECONDS),
    burstMessages: count(1_000).meta({ description: "Messages of a player in 5 seconds; 0 is off" }),
    minuteMessages: count(10_000).meta({ description: "Messages of a player in a minute; 0 is off" }),
  })
  .partial();
export type GivenSettings = z.output<typeof GivenSettings>;

/** Removes undefined settings. */
export const withoutUndefined = (given: GivenSettings): Partial<ChannelSettings> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));

const COMMON: ChannelSettings = {
  slowModeSeconds: 0,
  maxLength: 500,
  links: "BLOCK",
  allowedDomains: [],
  profanity: "MASK",
  reactions: true,
  mentions: "ALL",
  readOnly: false,
  minLevelToPost: 0,
  minAccountAgeSeconds: 0,
  retentionDays: 90,
  editWindowSeconds: 900,
  burstMessages: 5,
  minuteMessages: 30,
};

const BY_KIND: Readonly<Record<ChannelKind, Partial<ChannelSettings>>> = {
  PROJECT: { slowModeSeconds: 2 },
  LOBBY: {},
  DIRECT: { links: "ALLOW_LIST", retentionDays: 365 },
  GROUP: { retentionDays: 365 },
};

/** Merges explicit settings with the defaults of the kind. */
export const settingsFor = (kind: ChannelKind, given: Partial<ChannelSettings>): ChannelSettings => ({
  ...COMMON,
  ...BY_KIND[kind],
  ...given,
});

/** Returns the default retention of a kind, in days. */
export const retentionDaysOf = (kind: ChannelKind): number => settingsFor(kind, {}).retentionDays;
