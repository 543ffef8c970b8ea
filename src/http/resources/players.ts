import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, EVERY_ROLE } from "../../domain/access.ts";
import { actorOf, type Caller } from "../../domain/caller.ts";
import { pageBody, PageQuery } from "../../domain/paging.ts";
import type { Player } from "../../domain/players/player.ts";
import {
  getPlayer,
  grantPlayerXp,
  identifyPlayer,
  listPlayers,
  patchPlayer,
  showPlayer,
} from "../../domain/players/players.ts";
import { getCurve } from "../../domain/progression/level-curves.ts";
import { XP_MAX } from "../../domain/progression/xp.ts";
import { Zone } from "../../domain/rules/syntax.ts";
import type { Work } from "../../domain/work.ts";
import { Reply, route } from "../route.ts";
import { pageReply } from "./list-bodies.ts";

/** Bytes of `metadata` as JSON. */
const METADATA_MAX_BYTES = 16 * 1024;

const Tag = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be 1 to 64 of a-z 0-9 _ -");
const Attributes = z
  .record(
    z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/, "must be 1 to 64 of A-Z a-z 0-9 _ -"),
    z.unknown(),
  )
  .meta({
    description: "Merge patch: null removes an attribute. At most 100 keys, 8 KiB, depth 3; rules see them",
  });
const Metadata = z
  .record(z.string().max(255), z.unknown())
  .refine(
    (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_MAX_BYTES,
    "must be at most 16 KiB of JSON",
  )
  .meta({ description: "Free-form, at most 16 KiB; rules do not see it" });

const Profile = z.object({
  displayName: z.string().min(1).max(100).nullish(),
  avatarUrl: z
    .url({ protocol: /^https$/, error: "must be an https address" })
    .max(2048)
    .nullish(),
  timezone: Zone.nullish(),
  locale: z
    .string()
    .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, "must be a language tag such as en or pt-BR")
    .max(35)
    .nullish(),
  country: z
    .string()
    .regex(/^[A-Z]{2}$/, "must be an ISO 3166 code such as SE")
    .nullish(),
  attributes: Attributes.optional(),
  metadata: Metadata.optional(),
});
const NewPlayer = Profile.extend({
  externalUserId: z.string().min(1).max(255),
  tags: z.array(Tag).max(50).optional(),
});
const PlayerPatch = Profile.extend({
  addTags: z.array(Tag).max(50).optional(),
  removeTags: z.array(Tag).max(50).optional(),
});

export const PlayerBody = z
  .object({
    id: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    xp: z.int(),
    level: z.int(),
    levelProgress: z.object({
      level: z.int(),
      levelName: z.string().nullable(),
      xpForLevel: z.int(),
      xpForNextLevel: z.int().nullable(),
      percent: z.number(),
      maxLevel: z.int(),
    }),
    status: z.enum(["ACTIVE", "SUSPENDED", "BANNED", "MERGED", "ERASED"]),
    avatarUrl: z.string().nullable(),
    timezone: z.string().nullable(),
    locale: z.string().nullable(),
    country: z.string().nullable(),
    attributes: z.record(z.string(), z.unknown()),
    metadata: z.record(z.string(), z.unknown()),
    tags: z.array(z.string()),
    seq: z.int().meta({ description: "Sequence number of the player's live stream" }),
    lastSeenAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Player" });

const LedgerEntry = z
  .object({
    id: z.uuid(),
    seq: z.int(),
    asset: z.enum(["XP", "CURRENCY", "LIVES"]),
    amount: z.int(),
    balanceAfter: z.int(),
    reason: z.string(),
    cause: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "LedgerEntry" });

const PlayerParams = z.object({
  playerId: z.string().max(300).meta({ description: "The player's UUID, or ext: and the externalUserId" }),
});

const show = async (work: Work, player: Player) => showPlayer(player, await getCurve(work, player.projectId));
const causeOf = (caller: Caller) => ({ kind: "API" as const, actor: actorOf(caller) });
const common = { tag: "Players", project: "caller" } as const;
const read = { ...common, access: { scope: "players:read", roles: EVERY_ROLE } } as const;
const write = { ...common, access: { scope: "players:write", roles: ADMINS } } as const;

const list = route({
  ...read,
  method: "get",
  path: "/players",
  id: "listPlayers",
  summary: "List players",
  query: PageQuery.extend({
    sort: z.enum(["createdAt", "lastSeenAt", "xp", "level"]).default("createdAt"),
    order: z.enum(["asc", "desc"]).default("desc"),
    externalUserId: z.string().max(255).optional(),
    status: z.enum(["ACTIVE", "SUSPENDED", "BANNED"]).optional(),
    search: z
      .string()
      .min(1)
      .max(100)
      .optional()
      .meta({ description: "Part of externalUserId or displayName" }),
    minLevel: z.coerce.number().int().min(1).optional(),
    maxLevel: z.coerce.number().int().min(1).optional(),
  }),
  response: pageBody(PlayerBody),
  run: (app: App, { projectId, query }) =>
    app.transact(async (work) => {
      const { players, ...total } = await listPlayers(work, projectId, query);
      const curve = await getCurve(work, projectId);
      const shown = players.map((player) => showPlayer(player, curve));
      return pageReply(shown, total, query);
    }),
});

export const playerRoutes = [
  list,
  route({
    ...write,
    method: "post",
    path: "/players",
    id: "identifyPlayer",
    summary: "Identify a player",
    description: "Makes the player (201), or changes the one with this externalUserId (200).",
    body: NewPlayer,
    status: 201,
    otherStatus: 200,
    response: PlayerBody,
    run: (app, { projectId, body: { tags, ...profile } }) =>
      app.transact(async (work) => {
        const given = { ...profile, ...(tags ? { addTags: tags } : {}) };
        const { player, created } = await identifyPlayer(work, projectId, given);
        return new Reply(created ? 201 : 200, await show(work, player));
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/players/{playerId}",
    id: "getPlayer",
    summary: "Get a player",
    params: PlayerParams,
    response: PlayerBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => show(work, await getPlayer(work, projectId, params.playerId))),
  }),
  route({
    ...write,
    method: "patch",
    path: "/players/{playerId}",
    id: "updatePlayer",
    summary: "Change a player's profile",
    params: PlayerParams,
    body: PlayerPatch,
    response: PlayerBody,
    run: (app, { projectId, params, body, caller }) =>
      app.transact(async (work) => {
        const player = await getPlayer(work, projectId, params.playerId);
        return show(work, await patchPlayer(work, player, body, causeOf(caller)));
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/players/{playerId}/xp",
    id: "grantXp",
    summary: "Grant XP to a player",
    description:
      "A negative amount takes XP away; more than the player has is 409. A reference serves a player once.",
    params: PlayerParams,
    body: z.object({
      amount: z
        .int()
        .min(-XP_MAX)
        .max(XP_MAX)
        .refine((amount) => amount !== 0, "must not be 0"),
      reason: z.string().min(1).max(255).default("grant"),
      reference: z.string().min(1).max(200).optional(),
    }),
    status: 201,
    response: z.object({ player: PlayerBody, ledgerEntry: LedgerEntry }),
    run: (app, { projectId, params, body, caller }) =>
      app.transact(async (work) => {
        const player = await getPlayer(work, projectId, params.playerId);
        const granted = await grantPlayerXp(work, player, { ...body, cause: causeOf(caller) });
        const { id, seq, asset, amount, balanceAfter, reason, cause } = granted.ledgerEntry;
        const ledgerEntry = {
          id,
          seq,
          asset,
          amount,
          balanceAfter,
          reason,
          cause,
          createdAt: work.now.toISOString(),
        };
        return { player: await show(work, granted.player), ledgerEntry };
      }),
  }),
];
