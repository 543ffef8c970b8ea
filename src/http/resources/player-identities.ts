import { z } from "zod";
import { aliasPlayer } from "../../domain/player-lifecycle/alias.ts";
import {
  addIdentity,
  getPlayer,
  Identity,
  listIdentities,
  PRIMARY_PROVIDER,
  removeIdentity,
  UPSERT_MAX,
  upsertPlayers,
} from "../../domain/progression/players/players.ts";
import { showPlayer, ShownPlayer } from "../../domain/progression/players/show.ts";
import { PATH_VALUES, Reply } from "../route.ts";
import {
  explainedInPart,
  type ReadItem,
  readPlayerItems,
  SHORT_REFUSALS_EXPLAINED,
} from "../item-refusals.ts";
import {
  ExternalUserId,
  PlayerWarnings,
  playerWarnings,
  readsPlayers,
  writesPlayers,
} from "./player-bodies.ts";
import { causeOf, Deleted, deleted } from "./bodies.ts";

const Provider = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be 1 to 64 of a-z 0-9 _ -")
  .refine((name) => name !== PRIMARY_PROVIDER, `${PRIMARY_PROVIDER} is the externalUserId itself`)
  .meta({ example: "steam" });

const IdentityParams = z.object({
  playerId: PATH_VALUES.playerId,
  provider: z.string().max(64),
  externalId: z.string().max(300),
});

const UpsertResult = z.object({
  externalUserId: z.string().nullable().meta({ description: "Null where the item has none that is fit" }),
  status: z.enum(["CREATED", "UPDATED", "REJECTED"]),
  playerId: z.uuid().nullable(),
  message: z.string().nullable(),
  warnings: PlayerWarnings,
});

const Upserted = z.object({
  created: z.int(),
  updated: z.int(),
  rejected: z.int(),
  results: z
    .array(UpsertResult.partial({ externalUserId: true, playerId: true, message: true }))
    .meta({ description: "In the order of the players" }),
});

const resultsOf = (
  items: readonly ReadItem[],
  upserted: Awaited<ReturnType<typeof upsertPlayers>>,
): z.output<typeof UpsertResult>[] => {
  const outcomes = upserted.values();
  return items.map((item) => {
    const { externalUserId } = item;
    const rejected = { externalUserId, status: "REJECTED" as const, playerId: null };
    if ("problem" in item) return { ...rejected, message: item.problem };
    const outcome = outcomes.next().value!;
    return outcome.status === "REJECTED"
      ? { ...rejected, message: outcome.message }
      : {
          externalUserId,
          status: outcome.status,
          playerId: outcome.playerId,
          message: null,
          ...playerWarnings(item.ignored, outcome.playerStatus),
        };
  });
};

type Result = z.output<typeof UpsertResult>;
const isRejected = ({ status }: Result): boolean => status === "REJECTED";
const inBrief = ({ status }: Result) => ({ status });

export const playerIdentityRoutes = [
  writesPlayers.post("/players/batch", "identifyPlayers", {
    summary: "Identify players in a batch",
    description:
      `1 to ${UPSERT_MAX} players, each as for one. A bad one is REJECTED in its place and harms no ` +
      `other; the same one twice is changed twice. After ${SHORT_REFUSALS_EXPLAINED} bad ones that are ` +
      "very short, further such have nothing but their status.",
    bodyLimit: 5 * 1024 * 1024,
    takesGzip: true,
    itemised: true,
    body: z
      .object({
        players: z
          .array(z.unknown())
          .min(1)
          .max(UPSERT_MAX)
          .meta({
            override: { type: "array", minItems: 1, maxItems: UPSERT_MAX, items: { type: "object" } },
          }),
      })
      .meta({ example: { players: [{ externalUserId: "user-1", displayName: "Ada" }] } }),
    response: Upserted,
    outside: async (app, { projectId, body, caller }) => {
      const items = await readPlayerItems(body.players);
      const players = items.flatMap((item) => ("player" in item ? [item.player] : []));
      return app.transact(async (work) => {
        const upserted = await upsertPlayers(work, projectId, { players, cause: causeOf(caller) });
        const results = resultsOf(items, upserted);
        const count = (status: string) => results.filter((result) => result.status === status).length;
        return {
          created: count("CREATED"),
          updated: count("UPDATED"),
          rejected: count("REJECTED"),
          results: explainedInPart(body.players, results, isRejected, inBrief),
        };
      });
    },
  }),
  writesPlayers.post("/players/alias", "aliasPlayer", {
    summary: "Say that an anonymous player is a known one",
    description:
      "If `externalUserId` is new, the anonymous player gets it; otherwise the anonymous player is " +
      "merged into the one who has it. Both ids refer to the player from then on. A player who was identified " +
      "before stays as they are: `externalUserId` gets a player of its own, and `linked` is false.",
    body: z.object({ anonymousId: ExternalUserId, externalUserId: ExternalUserId }),
    example: { anonymousId: "device-7f3a", externalUserId: "user-1" },
    response: z.object({ player: ShownPlayer, merged: z.boolean(), linked: z.boolean() }),
    run: async (work, { projectId, body, caller }) => {
      const { player, ...rest } = await aliasPlayer(work, projectId, { ...body, cause: causeOf(caller) });
      return { player: await showPlayer(work, player), ...rest };
    },
  }),
  readsPlayers.get("/players/{playerId}/identities", "listPlayerIdentities", {
    summary: "List a player's ids",
    description: `The externalUserId first, as provider ${PRIMARY_PROVIDER}.`,
    response: z.object({ data: z.array(Identity) }),
    run: async (work, { projectId, params }) => ({
      data: await listIdentities(work, await getPlayer(work, projectId, params.playerId)),
    }),
  }),
  writesPlayers.post("/players/{playerId}/identities", "addPlayerIdentity", {
    summary: "Give a player an id at another provider",
    description: "A device, a Steam account: for looking the player up, not for sending events.",
    body: z.object({ provider: Provider, externalId: ExternalUserId }),
    example: { provider: "steam", externalId: "76561198000000000" },
    status: 201,
    otherStatus: 200,
    response: Identity,
    run: async (work, { projectId, params, body }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const { identity, created } = await addIdentity(work, player, body);
      return new Reply(created ? 201 : 200, identity);
    },
  }),
  writesPlayers.delete("/players/{playerId}/identities/{provider}/{externalId}", "removePlayerIdentity", {
    summary: "Take an id at another provider from a player",
    params: IdentityParams,
    response: Deleted,
    run: async (work, { projectId, params: { playerId, ...identity } }) =>
      deleted(removeIdentity(work, await getPlayer(work, projectId, playerId), identity)),
  }),
];
