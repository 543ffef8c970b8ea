import { z } from "zod";
import {
  archiveDraft,
  createDraft,
  DRAFT_STATUSES,
  type DraftList,
  duplicateDraft,
  listDrafts,
  moveDraft,
  patchDraft,
  rollbackDraft,
  showDraft,
} from "../../domain/economy/definitions/drafts.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../domain/kernel/limits.ts";
import { boundBytes } from "../../domain/kernel/hostile-json.ts";
import { actorOf, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  archiveDefinition,
  createDefinition,
  type Definition,
  DEFINITION_ORDERS,
  type DefinitionKind,
  getDefinition,
  listDefinitions,
  listVersions,
  patchDefinition,
  showDefinition,
  ShownVersion,
  VERSION_ORDERS,
} from "../../domain/economy/definitions/definitions.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { type AnyRoute, type Group, group, type Owned } from "../route.ts";
import { paged, Search, sortedBy } from "./bodies.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";

/** `Quest` of `quest`, as in operation ids. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A field omitted from a change keeps its value instead of becoming the default. */
const withoutDefault = (field: z.ZodType): z.ZodType =>
  field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field;

/** The body of a change of a definition: any of its fields, and null for those that are to go. */
const changeBody = (shape: z.ZodObject, counter: Writing["counter"]) =>
  boundBytes(
    z
      .strictObject({
        ...Object.fromEntries(
          Object.entries(shape.shape).map(([name, field]) => [
            name,
            withoutDefault(field as z.ZodType).nullish(),
          ]),
        ),
        [counter.name]: z.int().min(1).optional().meta({ description: counter.description }),
      })
      .meta({ example: { name: "A better name", [counter.name]: 1 } }),
    DEFINITION_MAX_BYTES + PATCH_MORE_BYTES,
  );

/** What changes do, as the documentation says of each. */
const CHANGE_TEXT =
  "Fields that are given replace those that are there, whole; null takes an optional one away, or " +
  "gives it its default back.";

/** A definition as it was published; stored ones may be of an earlier version of the service. */
const Stored = z.record(z.string(), z.unknown());

/**
 * What a definition with drafts is shown with besides its own fields.
 * @param times the fields by which it starts and ends
 */
export const draftFields = (times: string) => ({
  id: z.uuid(),
  status: z.enum(DRAFT_STATUSES).meta({ description: `SCHEDULED and ENDED also follow from ${times}` }),
  draftVersion: z.int().meta({ description: "Counts the edits of the draft" }),
  publishedVersion: z.int().nullable(),
  published: Stored.nullable().meta({ description: "What runs; the other fields are those of the draft" }),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});

/** A kind of definitions, as the API names and shows it. */
type Resource = {
  kind: DefinitionKind;
  /** With its article, as summaries name one: `a quest`. */
  one: string;
  read: Group<Owned>;
  write: Group<Owned>;
  body: z.ZodObject;
};

type Show = (work: Work, found: Definition) => Promise<never>;
type Asked = { projectId: string; params: unknown };
type Ref = { projectId: string; ref: string };

/** Names of the operations on one definition, their path, and what in a request names the definition. */
export const namesOf = ({ kind, plural }: DefinitionKind) => ({
  name: capital(kind),
  path: `/${plural}/{${kind}Id}`,
  refOf: ({ projectId, params }: Asked): Ref => ({
    projectId,
    ref: (params as Record<string, string>)[`${kind}Id`]!,
  }),
});

type Write<T> = (work: Work, kind: DefinitionKind, given: T) => Promise<Definition>;

/** How the definitions of a kind are written, with what the documentation says of it. */
type Writing = {
  create: Write<{ projectId: string; definition: never; createdBy: string }>;
  /** The field of a change that names the version on which it is based: it is given as `count`. */
  counter: { name: "version" | "draftVersion"; description: string };
  update: Write<Ref & { count: number | undefined; changes: Json }>;
  archive: Write<Ref>;
  summaryOfUpdate(one: string): string;
  texts: { create: string; update: string; archive: string };
};

/** The operations by which definitions of every kind are written and read, but for their list. */
const definitionOperations = (
  { kind, one, read, write, body, show }: Resource & { show: Show },
  { create, counter, update, archive, summaryOfUpdate, texts }: Writing,
): AnyRoute[] => {
  const { name, path, refOf } = namesOf(kind);
  return [
    write.post(`/${kind.plural}`, `create${name}`, {
      summary: `Create ${one}`,
      description: texts.create,
      body: kind.schema as z.ZodType<never>,
      example: kind.example,
      status: 201,
      response: body,
      run: async (work, { caller, projectId, body: definition }) =>
        show(work, await create(work, kind, { projectId, definition, createdBy: actorOf(caller) })),
    }),
    read.get(path, `get${name}`, {
      isRevalidated: true,
      summary: `Get ${one}`,
      response: body,
      run: async (work, asked) =>
        show(work, await getDefinition(work, asked.projectId, kind, refOf(asked).ref)),
    }),
    write.patch(path, `update${name}`, {
      summary: summaryOfUpdate(one),
      description: `${CHANGE_TEXT} ${texts.update}`,
      body: changeBody(kind.shape, counter),
      response: body,
      run: async (work, asked) => {
        const { [counter.name]: given, ...changes } = asked.body;
        const count = given as number | undefined;
        return show(work, await update(work, kind, { ...refOf(asked), count, changes }));
      },
    }),
    write.delete(path, `archive${name}`, {
      summary: `Archive ${one}`,
      description: texts.archive,
      response: body,
      run: async (work, asked) => show(work, await archive(work, kind, refOf(asked))),
    }),
  ];
};

const readers = group({ access: { scope: "config:read", roles: EVERY_ROLE }, project: "caller" });
const writers = group({ access: { scope: "config:manage", roles: DESIGNERS }, project: "caller" });

const ListQuery = PageQuery.extend({
  ...sortedBy(DEFINITION_ORDERS),
  status: z.enum(["ACTIVE", "ARCHIVED"]).optional().meta({ description: "Default: ACTIVE" }),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
});

const WRITING: Writing = {
  create: (work, kind, { projectId, ...made }) => createDefinition(work, projectId, kind, made),
  counter: {
    name: "version",
    description: "The version that the change is based on; 409 VERSION_CONFLICT if it is another",
  },
  update: (work, kind, { projectId, count: version, ...change }) =>
    patchDefinition(work, projectId, kind, { ...change, version }),
  archive: (work, kind, { projectId, ref }) => archiveDefinition(work, projectId, kind, ref),
  summaryOfUpdate: (one) => `Change ${one}`,
  texts: {
    create: "It counts from the next events on. Its key never changes, and nothing else may have it.",
    update: "The key cannot change.",
    archive: "Permanent. It keeps its key, and players keep what they hold of it.",
  },
};

/** Converts definitions to their API form. */
const showAll = async (
  work: Work,
  { extra }: DefinitionKind,
  definitions: readonly Definition[],
): Promise<never[]> => {
  const [first] = definitions;
  const keys = definitions.map(({ key }) => key);
  const more = first && extra ? await extra.read(work, first.projectId, keys) : undefined;
  return definitions.map((one) => ({ ...showDefinition(one), ...more?.get(one.key) }) as never);
};

const routesOf = (kind: DefinitionKind): AnyRoute[] => {
  const { plural, tag, shape, extra } = kind;
  const read = readers.with({ tag });
  const body = shape
    .extend({
      id: z.uuid(),
      status: z.enum(["ACTIVE", "ARCHIVED"]),
      version: z.int().meta({ description: "Counts the changes" }),
      createdAt: z.iso.datetime(),
      updatedAt: z.iso.datetime(),
      ...extra?.shape,
    })
    .meta({ id: capital(kind.kind) });
  const list = read.get(`/${plural}`, `list${capital(plural)}`, {
    isRevalidated: true,
    summary: `List ${plural}`,
    description: "By key.",
    query: ListQuery,
    response: pageBody(body),
    run: async (work, { projectId, query }) => {
      const { definitions, total } = await listDefinitions(work, projectId, kind, query);
      return pageOf(await showAll(work, kind, definitions), total, query);
    },
  });
  const show: Show = async (work, found) => (await showAll(work, kind, [found]))[0]!;
  const resource = { kind, one: `a ${kind.kind}`, read, write: writers.with({ tag }), body, show };
  return [list, ...definitionOperations(resource, WRITING)];
};

/** The five operations of every kind of definition that has no drafts. */
export const definitionRoutes: readonly AnyRoute[] = DEFINITION_KINDS.filter(
  ({ hasDrafts }) => !hasDrafts,
).flatMap(routesOf);

/** A kind of definition with drafts, as the API names and shows it. */
type DraftResource = Resource & {
  list: DraftList<string, never>;
  /** What its list may be asked for besides. */
  filters: z.ZodRawShape;
  /** What pausing, resuming and ending one mean to players. */
  moves: { pause: string; resume: string; end: string };
  /** Example of what a copy is given. */
  copy: { key: string; name: string };
};

const DRAFT_WRITING: Writing = {
  create: createDraft,
  counter: {
    name: "draftVersion",
    description: "The draft's version that the change is based on; 409 VERSION_CONFLICT if it is another",
  },
  update: (work, kind, { count: draftVersion, ...change }) =>
    patchDraft(work, kind, { ...change, draftVersion }),
  archive: archiveDraft,
  summaryOfUpdate: (one) => `Edit ${one}'s draft`,
  texts: {
    create: "As a DRAFT: players see it once it is published. Its key never changes.",
    update: "What players do stays as it is until the draft is published.",
    archive: "A draft, or one that is PAUSED or ENDED; permanent. It keeps its key.",
  },
};

type Common = DraftResource & ReturnType<typeof commonOf>;

const commonOf = (resource: DraftResource) => ({
  ...resource,
  ...namesOf(resource.kind),
  show: async (work: Work, found: Definition) => showDraft(found, work) as never,
});

const listRoute = ({ kind: { plural }, read, body, list, filters }: Common): AnyRoute =>
  read.get(`/${plural}`, `list${capital(plural)}`, {
    isRevalidated: true,
    summary: `List ${plural}`,
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    ...paged(body, list.orders, {
      status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
      ...filters,
      search: Search.meta({ description: "Part of the name or key" }),
    }),
    run: async (work, { projectId, query }) => {
      const { drafts, total } = await listDrafts(work, projectId, query as never, list);
      return pageOf(drafts.map((one) => showDraft(one, work)) as never[], total, query);
    },
  });

const moveRoute = (common: Common, move: keyof DraftResource["moves"]): AnyRoute => {
  const { kind, one, name, path, write, body, moves, refOf, show } = common;
  return write.post(`${path}/${move}`, `${move}${name}`, {
    summary: `${capital(move)} ${one}`,
    description: moves[move],
    response: body,
    run: async (work, asked) => show(work, await moveDraft(work, kind, { ...refOf(asked), move })),
  });
};

const duplicateRoute = (common: Common): AnyRoute => {
  const { kind, one, name, path, write, body, copy: example, refOf, show } = common;
  return write.post(`${path}/duplicate`, `duplicate${name}`, {
    summary: `Copy ${one}`,
    description: "A new DRAFT from its draft; archived ones can be copied too.",
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(1).max(100).optional() })
      .meta({ example }),
    status: 201,
    response: body,
    run: async (work, { caller, body: given, ...asked }) => {
      const copy = { ...refOf(asked), ...given, createdBy: actorOf(caller) };
      return show(work, await duplicateDraft(work, kind, copy));
    },
  });
};

const versionsRoute = ({ kind, one, name, path, read, refOf }: Common): AnyRoute =>
  read.get(`${path}/versions`, `list${name}Versions`, {
    summary: `List ${one}'s versions`,
    ...paged(ShownVersion.meta({ id: `${name}Version` }), VERSION_ORDERS, {}),
    run: async (work, { query, ...asked }) => {
      const found = await getDefinition(work, asked.projectId, kind, refOf(asked).ref);
      const { versions, total } = await listVersions(work, found, query);
      return pageOf(versions as never[], total, query);
    },
  });

const rollbackRoute = ({ kind, one, name, path, write, body, refOf, show }: Common): AnyRoute =>
  write.post(`${path}/rollback`, `rollback${name}`, {
    summary: `Publish an earlier version of ${one}`,
    description: "As the next version. Unpublished edits are dropped.",
    body: z.strictObject({ version: z.int().min(1) }).meta({ example: { version: 1 } }),
    response: body,
    run: async (work, { body: given, ...asked }) =>
      show(work, await rollbackDraft(work, kind, { ...refOf(asked), ...given })),
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
    editing: [listRoute(common), ...definitionOperations(common, DRAFT_WRITING)],
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
