import { z } from "zod";
import type { App } from "../../app.ts";
import { type Caller, EVERY_ROLE, tenantOf } from "../../domain/kernel/caller.ts";
import {
  FOUND_MAX,
  search,
  SEARCHED,
  SEARCHED_KINDS,
  type SearchedKind,
} from "../../domain/registries/search.ts";
import { mayCall } from "../access.ts";
import { type AnyRoute, group } from "../route.ts";

const Q_MAX = 100;

const read = group({
  tag: "Projects",
  access: { scope: "projects:read", roles: EVERY_ROLE },
  project: "caller",
});

const Found = z
  .object({
    kind: z.enum(SEARCHED_KINDS),
    id: z.uuid(),
    key: z.string().nullable().meta({ description: "The externalUserId of a player; null for a webhook" }),
    name: z.string().nullable(),
  })
  .meta({ id: "Found" });

/** The kinds that a caller may list. */
const kindsFor = ({ config }: App, caller: Caller, routes: readonly AnyRoute[]): Set<SearchedKind> => {
  const access = new Map(routes.map((route) => [route.id, route]));
  return new Set(SEARCHED_KINDS.filter((kind) => mayCall({ config }, caller, access.get(SEARCHED[kind])!)));
};

/** @param routes every operation of the API */
export const searchRoutes = (routes: () => readonly AnyRoute[]) => [
  read.get("/search", "search", {
    summary: "Find anything of the project by its name or key",
    description:
      `At most ${FOUND_MAX} of each kind that the caller may list. Definitions and webhooks by a part of the ` +
      "name, key or URL; players by how displayName or externalUserId begins: as given, in lower case, or " +
      "with capitals. Without what is archived.",
    query: z.object({ q: z.string().trim().min(1).max(Q_MAX) }),
    response: z.object({ data: z.array(Found) }),
    outside: async (app, { caller, projectId, query }) => {
      const asked = { text: query.q, kinds: kindsFor(app, caller, routes()) };
      const place = { projectId, tenantId: tenantOf(caller) };
      return { data: await app.transact((work) => search(work, place, asked)) };
    },
  }),
];
