import { z } from "zod";
import type { App } from "../../app.ts";
import {
  type Definition,
  type DefinitionKind,
  getDefinition,
  listVersions,
  VERSION_ORDERS,
} from "../../domain/economy/definitions/definitions.ts";
import {
  archiveDraft,
  createDraft,
  DRAFT_STATUSES,
  duplicateDraft,
  moveDraft,
  patchDraft,
  rollbackDraft,
  showDraft,
} from "../../domain/economy/definitions/drafts.ts";
import { type DraftList, listDrafts } from "../../domain/economy/definitions/list-drafts.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import type { Work } from "../../domain/kernel/work.ts";
import type { AnyRoute, Group, Owned } from "../route.ts";
import { capital, CHANGE_TEXT, changeBody } from "./definitions.ts";
import { Search, sortedBy } from "./bodies.ts";

/** A kind of definition with drafts, as the API names and shows it. */
type DraftResource = {
  kind: DefinitionKind;
  /** With its article, as summaries name one: `a quest`. */
  one: string;
  read: Group<Owned>;
  write: Group<Owned>;
  body: z.ZodObject;
  versionBody: z.ZodObject;
  list: DraftList<string, never>;
  /** What its list may be asked for besides. */
  filters: z.ZodRawShape;
  /** What pausing, resuming and ending one mean to players. */
  moves: { pause: string; resume: string; end: string };
  /** Example of what a copy is given. */
  copy: { key: string; name: string };
};

type Common = DraftResource & {
  /** `Quest`, as in operation ids. */
  name: string;
  /** Path of a single one. */
  path: string;
  /** Returns what names the one of a request. */
  refOf(asked: { projectId: string; params: unknown }): { projectId: string; ref: string };
  /** Answers with what an action in one transaction returns. */
  answer(app: App, act: (work: Work) => Promise<Definition>): Promise<never>;
};

const commonOf = (resource: DraftResource): Common => {
  const { kind, plural } = resource.kind;
  const param = `${kind}Id`;
  return {
    ...resource,
    name: capital(kind),
    path: `/${plural}/{${param}}`,
    refOf: ({ projectId, params }) => ({ projectId, ref: (params as Record<string, string>)[param]! }),
    answer: (app, act) => app.transact(async (work) => showDraft(await act(work), work) as never),
  };
};

const listRoute = ({ kind: { plural }, read, body, list, filters }: Common): AnyRoute =>
  read.get(`/${plural}`, `list${capital(plural)}`, {
    isRevalidated: true,
    summary: `List ${plural}`,
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    query: PageQuery.extend({
      ...sortedBy(list.orders),
      status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
      ...filters,
      search: Search.meta({ description: "Part of the name or key" }),
    }),
    response: pageBody(body),
    run: async (work, { projectId, query }) => {
      const { drafts, total } = await listDrafts(work, projectId, query as never, list);
      return pageOf(drafts.map((one) => showDraft(one, work)) as never[], total, query);
    },
  });

const createRoute = ({ kind, one, name, write, body, answer }: Common): AnyRoute =>
  write.post(`/${kind.plural}`, `create${name}`, {
    summary: `Create ${one}`,
    description: "As a DRAFT: players see it once it is published. Its key never changes.",
    body: kind.schema as z.ZodType<never>,
    status: 201,
    response: body,
    outside: (app, { caller, projectId, body: definition }) =>
      answer(app, (work) => createDraft(work, kind, { projectId, definition, createdBy: actorOf(caller) })),
  });

const getRoute = ({ kind, one, name, path, read, body, refOf, answer }: Common): AnyRoute =>
  read.get(path, `get${name}`, {
    isRevalidated: true,
    summary: `Get ${one}`,
    response: body,
    outside: (app, asked) =>
      answer(app, (work) => getDefinition(work, asked.projectId, kind, refOf(asked).ref)),
  });

const updateRoute = ({ kind, one, name, path, write, body, refOf, answer }: Common): AnyRoute => {
  const changed = changeBody(kind.shape, {
    name: "draftVersion",
    description: "The draft's version that the change is based on; 409 VERSION_CONFLICT if it is another",
  });
  return write.patch(path, `update${name}`, {
    summary: `Edit ${one}'s draft`,
    description: `${CHANGE_TEXT} What players do stays as it is until the draft is published.`,
    body: changed,
    response: body,
    outside: (app, asked) => {
      const { draftVersion, ...changes } = asked.body as Json & { draftVersion?: number };
      return answer(app, (work) => patchDraft(work, kind, { ...refOf(asked), draftVersion, changes }));
    },
  });
};

const archiveRoute = ({ kind, one, name, path, write, body, refOf, answer }: Common): AnyRoute =>
  write.delete(path, `archive${name}`, {
    summary: `Archive ${one}`,
    description: "A draft, or one that is PAUSED or ENDED; permanent. It keeps its key.",
    response: body,
    outside: (app, asked) => answer(app, (work) => archiveDraft(work, kind, refOf(asked))),
  });

const moveRoute = (common: Common, move: keyof DraftResource["moves"]): AnyRoute => {
  const { kind, one, name, path, write, body, moves, refOf, answer } = common;
  return write.post(`${path}/${move}`, `${move}${name}`, {
    summary: `${capital(move)} ${one}`,
    description: moves[move],
    response: body,
    outside: (app, asked) => answer(app, (work) => moveDraft(work, kind, { ...refOf(asked), move })),
  });
};

const duplicateRoute = (common: Common): AnyRoute => {
  const { kind, one, name, path, write, body, copy: example, refOf, answer } = common;
  return write.post(`${path}/duplicate`, `duplicate${name}`, {
    summary: `Copy ${one}`,
    description: "A new DRAFT from its draft; archived ones can be copied too.",
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(1).max(100).optional() })
      .meta({ example }),
    status: 201,
    response: body,
    outside: (app, { caller, body: given, ...asked }) => {
      const copy = { ...refOf(asked), ...given, createdBy: actorOf(caller) };
      return answer(app, (work) => duplicateDraft(work, kind, copy));
    },
  });
};

const versionsRoute = ({ kind, one, name, path, read, versionBody, refOf }: Common): AnyRoute =>
  read.get(`${path}/versions`, `list${name}Versions`, {
    summary: `List ${one}'s versions`,
    query: PageQuery.extend(sortedBy(VERSION_ORDERS)),
    response: pageBody(versionBody),
    run: async (work, { query, ...asked }) => {
      const found = await getDefinition(work, asked.projectId, kind, refOf(asked).ref);
      const { versions, total } = await listVersions(work, found, query);
      return pageOf(versions as never[], total, query);
    },
  });

const rollbackRoute = ({ kind, one, name, path, write, body, refOf, answer }: Common): AnyRoute =>
  write.post(`${path}/rollback`, `rollback${name}`, {
    summary: `Publish an earlier version of ${one}`,
    description: "As the next version. Unpublished edits are dropped.",
    body: z.strictObject({ version: z.int().min(1) }).meta({ example: { version: 1 } }),
    response: body,
    outside: (app, { body: given, ...asked }) =>
      answer(app, (work) => rollbackDraft(work, kind, { ...refOf(asked), ...given })),
  });

/**
 * The operations that are the same for all kinds with drafts, in the order of the documentation: those that
 * come before publishing, and those that come after it. Publishing is each kind's own.
 */
export const draftRoutes = (
  resource: DraftResource,
): { editing: readonly AnyRoute[]; running: readonly AnyRoute[] } => {
  const common = commonOf(resource);
  return {
    editing: [listRoute, createRoute, getRoute, updateRoute, archiveRoute].map((make) => make(common)),
    running: [
      moveRoute(common, "pause"),
      moveRoute(common, "resume"),
      moveRoute(common, "end"),
      duplicateRoute(common),
      versionsRoute(common),
      rollbackRoute(common),
    ],
  };
};
