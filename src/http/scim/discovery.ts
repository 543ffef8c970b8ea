import { z } from "zod";
import type { App } from "../../app.ts";
import { emptyDraft, patchDraft, readPatch, setAttributes } from "../../domain/accounts/scim/draft.ts";
import {
  attributeName,
  type Comparison,
  invalidValue,
  parseFilter,
  provisioned,
  type ProvisioningParts,
} from "../../domain/accounts/scim/filter.ts";
import {
  GROUP_SCHEMA,
  type Resource,
  SCIM_PAGE_MAX,
  type ScimPage,
  USER_SCHEMA,
} from "../../domain/accounts/scim/query.ts";
import {
  changeScimUser,
  createScimUser,
  deleteScimUser,
  getScimUser,
  listScimUsers,
  type ScimScope,
} from "../../domain/accounts/scim/users.ts";
import { type Actor, type Caller, providerOf } from "../../domain/kernel/caller.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import { Reply, group } from "../route.ts";

/** Where SCIM is served, without any prefix: providers add the names of resources to it. */
export const SCIM_PATH = "/scim/v2";

const SCHEMAS = "urn:ietf:params:scim:schemas:core:2.0";

/** What the service can do (RFC 7643, 5). */
export const providerConfig = (base: string) => ({
  schemas: [`${SCHEMAS}:ServiceProviderConfig`],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: SCIM_PAGE_MAX },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: true },
  authenticationSchemes: [
    {
      type: "oauthbearertoken",
      name: "Bearer token",
      description: "A token of POST /api/v1/enterprise/scim/tokens",
      specUri: "https://www.rfc-editor.org/info/rfc6750",
      primary: true,
    },
  ],
  meta: { resourceType: "ServiceProviderConfig", location: `${base}/ServiceProviderConfig` },
});

const typeOf = (base: string, name: "User" | "Group", schema: string) => ({
  schemas: [`${SCHEMAS}:ResourceType`],
  id: name,
  name,
  endpoint: `/${name}s`,
  description: name === "User" ? "A member of the tenant" : "A group, which can give its members a role",
  schema,
  schemaExtensions: [],
  meta: { resourceType: "ResourceType", location: `${base}/ResourceTypes/${name}` },
});

/** The kinds of resources (RFC 7643, 6). */
export const resourceTypes = (base: string) => [
  typeOf(base, "User", USER_SCHEMA),
  typeOf(base, "Group", GROUP_SCHEMA),
];

type Attribute = {
  name: string;
  type?: string;
  multiValued?: true;
  required?: true;
  caseExact?: true;
  mutability?: "readOnly" | "immutable";
  uniqueness?: "server";
  description: string;
  subAttributes?: Attribute[];
  referenceTypes?: string[];
};

const shownAttribute = ({ subAttributes, referenceTypes, ...given }: Attribute): object => ({
  name: given.name,
  type: given.type ?? (subAttributes ? "complex" : "string"),
  multiValued: given.multiValued ?? false,
  description: given.description,
  required: given.required ?? false,
  caseExact: given.caseExact ?? false,
  mutability: given.mutability ?? "readWrite",
  returned: "default",
  uniqueness: given.uniqueness ?? "none",
  ...(referenceTypes ? { referenceTypes } : {}),
  ...(subAttributes ? { subAttributes: subAttributes.map(shownAttribute) } : {}),
});

const EXTERNAL_ID: Attribute = {
  name: "externalId",
  caseExact: true,
  description: "The provider's own id",
};

const USER: Attribute[] = [
  { name: "userName", required: true, uniqueness: "server", description: "Usually the email address" },
  EXTERNAL_ID,
  {
    name: "name",
    description: "The parts of the name",
    subAttributes: [
      { name: "formatted", description: "The whole name" },
      { name: "familyName", description: "The family name" },
      { name: "givenName", description: "The given name" },
    ],
  },
  { name: "displayName", description: "The name that Laurel shows" },
  { name: "active", type: "boolean", description: "False: suspended, and without sessions" },
  {
    name: "emails",
    multiValued: true,
    description:
      "The primary address, else that of work; one is kept. Of a domain that the tenant has verified",
    subAttributes: [
      { name: "value", uniqueness: "server", description: "The address" },
      { name: "type", description: "work" },
      { name: "primary", type: "boolean", description: "True" },
    ],
  },
  {
    name: "groups",
    multiValued: true,
    mutability: "readOnly",
    description: "The groups of the user",
    subAttributes: [
      { name: "value", mutability: "readOnly", description: "The id of the group" },
      { name: "display", mutability: "readOnly", description: "Its displayName" },
      {
        name: "$ref",
        type: "reference",
        referenceTypes: ["Group"],
        mutability: "readOnly",
        description: "Its address",
      },
      { name: "type", mutability: "readOnly", description: "direct" },
    ],
  },
  {
    name: "roles",
    multiValued: true,
    mutability: "readOnly",
    description: "The role in Laurel, which follows from groups",
    subAttributes: [
      { name: "value", mutability: "readOnly", description: "The role" },
      { name: "primary", type: "boolean", mutability: "readOnly", description: "True" },
    ],
  },
];

const GROUP: Attribute[] = [
  { name: "displayName", required: true, uniqueness: "server", description: "The name of the group" },
  EXTERNAL_ID,
  {
    name: "members",
    multiValued: true,
    description: "The users of the group",
    subAttributes: [
      { name: "value", mutability: "immutable", description: "The id of the user" },
      { name: "display", mutability: "readOnly", description: "Their name" },
      {
        name: "$ref",
        type: "reference",
        referenceTypes: ["User"],
        mutability: "immutable",
        description: "Their address",
      },
      { name: "type", mutability: "immutable", description: "User" },
    ],
  },
];

const schemaOf = (base: string, id: string, of: { name: string; attributes: Attribute[] }) => ({
  schemas: [`${SCHEMAS}:Schema`],
  id,
  name: of.name,
  description: of.name === "User" ? "A member of the tenant" : "A group of users",
  attributes: of.attributes.map(shownAttribute),
  meta: { resourceType: "Schema", location: `${base}/Schemas/${id}` },
});

/** The attributes that are kept; others are left out of what clients send (RFC 7643, 7). */
export const schemas = (base: string) => [
  schemaOf(base, USER_SCHEMA, { name: "User", attributes: USER }),
  schemaOf(base, GROUP_SCHEMA, { name: "Group", attributes: GROUP }),
];

/** Returns one of a list by its id. @throws NOT_FOUND */
export const oneOf = <T extends { id: string }>(list: readonly T[], id: string): T => {
  const found = list.find((one) => one.id === id);
  if (!found) throw notFound("Resource");
  return found;
};

/** Builds the answer to a list (RFC 7644, 3.4.2). */
const listOf = (resources: readonly object[], total: number, startIndex: number) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
  totalResults: total,
  startIndex,
  itemsPerPage: resources.length,
  Resources: resources,
});

/** Characters of `attributes` and `excludedAttributes`. */
const ATTRIBUTES_MAX = 2_000;
/** Beyond this no tenant has resources. */
const INDEX_MAX = 1_000_000_000;

/** Providers add parameters of their own. The length of the filter is checked by its parser. */
const ListQuery = z.looseObject({
  filter: z.string().optional(),
  startIndex: z.string().optional(),
  count: z.string().optional(),
  attributes: z.string().max(ATTRIBUTES_MAX).optional(),
  excludedAttributes: z.string().max(ATTRIBUTES_MAX).optional(),
});
type ListParameters = z.output<typeof ListQuery>;

const integerOf = (name: string, text: string | undefined, usual: number): number => {
  if (text === undefined || text === "") return usual;
  if (!/^-?[0-9]{1,15}$/.test(text)) throw invalidValue(name, "must be an integer");
  return Number(text);
};

const clamped = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

/**
 * Returns where a page begins, and its size. Numbers below the least count as that (RFC 7644, 3.4.2.4).
 * @throws ScimError invalidValue
 */
export const pageOf = ({ startIndex, count }: ListParameters): ScimPage => ({
  startIndex: clamped(integerOf("startIndex", startIndex, 1), 1, INDEX_MAX),
  count: clamped(integerOf("count", count, SCIM_PAGE_MAX), 0, SCIM_PAGE_MAX),
});

/** Returns the comparisons of a filter; none without one. @throws ScimError invalidFilter */
export const filterOf = ({ filter }: ListParameters): Comparison[] =>
  filter === undefined || filter.trim() === "" ? [] : parseFilter(filter);

const rootsOf = (text: string | undefined): Set<string> | undefined =>
  text === undefined || text.trim() === ""
    ? undefined
    : new Set(text.split(",").map((name) => attributeName(name.trim()).split(".", 1)[0] ?? ""));

const ALWAYS: ReadonlySet<string> = new Set(["schemas", "id"]);

/**
 * Returns what leaves out of a resource what is not wanted: whole attributes, since a part of one is not
 * worth the trouble. `has`: whether an attribute is wanted.
 */
export const selectionOf = ({ attributes, excludedAttributes }: ListParameters) => {
  const [wanted, unwanted] = [rootsOf(attributes), rootsOf(excludedAttributes)];
  const has = (name: string): boolean => {
    const lower = name.toLowerCase();
    if (ALWAYS.has(lower)) return true;
    return wanted ? wanted.has(lower) : !unwanted?.has(lower);
  };
  const select = (resource: object): object =>
    wanted || unwanted
      ? Object.fromEntries(Object.entries(resource).filter(([name]) => has(name)))
      : resource;
  return { has, select };
};

/**
 * What all operations of SCIM have in common. They are open whatever the plan: who leaves a company must not
 * keep an account because of it.
 */
export const common = group({
  tag: "SCIM",
  project: "none",
  access: { scim: true },
  isScim: true,
  takesNoIdempotencyKey: true,
  query: ListQuery,
  response: z.unknown(),
});

/** What lets people in, or changes what they may. */
export const provisioning = common.with({ access: { scim: true, needs: { feature: "sso" } } });

export const Params = z.object({ id: z.string().max(100) });
/** Attributes are read by the domain, by names in any case: clients send many that are not kept. */
export const Body = z.looseObject({});

/** Returns the address of the service, without a slash at the end. */
export const baseOf = ({ config }: App): string => `${config.publicUrl}${SCIM_PATH}`;

/** Returns the tenant whose identity provider calls. */
export const scopeOf = (app: App, caller: Caller): ScimScope => {
  const { tenantId, tenant } = providerOf(caller);
  return { tenantId, plan: tenant.plan, base: baseOf(app) };
};

/** Answers with a resource; its version and address are in the headers whatever is left out of the body. */
export const replyOf = (
  resource: Resource,
  query: ListParameters,
  status: 200 | 201 = 200,
): Reply<unknown> => {
  const { version, location } = resource.meta;
  const headers = { ETag: version, ...(status === 201 ? { Location: location } : {}) };
  return new Reply(status, selectionOf(query).select(resource), headers);
};

/** Answers with a list that has one page. */
export const listAll = (resources: readonly object[]) => listOf(resources, resources.length, 1);

/** Answers 204. */
export const nothing = (): Reply<unknown> => new Reply<unknown>(204, undefined);

/** Answers with a page of resources. */
export const listReply = (
  { resources, total }: { resources: Resource[]; total: number },
  query: ListParameters,
): object => {
  const { select } = selectionOf(query);
  return listOf(resources.map(select), total, pageOf(query).startIndex);
};

/** Bytes of a user, and of a PATCH of one. */
export const SCIM_USER_MAX_BYTES = 64 * 1_024;

const partsOf = ({ transact, transactAs, mail }: App, actor: Actor): ProvisioningParts => {
  return { transact, accounts: transactAs({ role: "accounts", by: actor }), mail };
};

export const scimUserRoutes = [
  common.get(`${SCIM_PATH}/Users`, "scimListUsers", {
    summary: "List users",
    outside: async (app, { caller, query }) => {
      const wanted = { filter: filterOf(query), page: pageOf(query) };
      return listReply(
        await app.transact((work) => listScimUsers(work, scopeOf(app, caller), wanted)),
        query,
      );
    },
  }),
  provisioning.post(`${SCIM_PATH}/Users`, "scimCreateUser", {
    summary: "Create a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    body: Body,
    outside: async (app, { actor, caller, query, body }) => {
      const draft = setAttributes(emptyDraft(true), body);
      const scope = scopeOf(app, caller);
      const made = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        createScimUser(work, scope, draft),
      );
      return replyOf(made, query, 201);
    },
  }),
  common.get(`${SCIM_PATH}/Users/{id}`, "scimGetUser", {
    summary: "Get a user",
    params: Params,
    outside: async (app, { caller, params, query }) =>
      replyOf(await app.transact((work) => getScimUser(work, scopeOf(app, caller), params.id)), query),
  }),
  common.put(`${SCIM_PATH}/Users/{id}`, "scimReplaceUser", {
    summary: "Replace a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    params: Params,
    body: Body,
    outside: async (app, { actor, caller, params, query, body, ifMatch }) => {
      const change = { id: params.id, ifMatch, mail: app.mail };
      const scope = scopeOf(app, caller);
      // Whoever leaves `active` out does not mean to let somebody in again.
      const changed = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        changeScimUser(work, scope, change, ({ active }) => setAttributes(emptyDraft(active), body)),
      );
      return replyOf(changed, query);
    },
  }),
  common.patch(`${SCIM_PATH}/Users/{id}`, "scimPatchUser", {
    summary: "Change a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    params: Params,
    body: Body,
    outside: async (app, { actor, caller, params, query, body, ifMatch }) => {
      const operations = readPatch(body);
      const change = { id: params.id, ifMatch, mail: app.mail };
      const scope = scopeOf(app, caller);
      const changed = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        changeScimUser(work, scope, change, (known) => patchDraft(known, operations)),
      );
      return replyOf(changed, query);
    },
  }),
  common.delete(`${SCIM_PATH}/Users/{id}`, "scimDeleteUser", {
    summary: "Delete a user",
    params: Params,
    outside: async (app, { caller, params, ifMatch }) => {
      await app.transact((work) => deleteScimUser(work, scopeOf(app, caller), { id: params.id, ifMatch }));
      return nothing();
    },
  }),
];
