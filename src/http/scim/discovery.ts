import { notFound } from "../../domain/kernel/errors.ts";
import { SCIM_PAGE_MAX } from "../../domain/accounts/scim/query.ts";
import { GROUP_SCHEMA, USER_SCHEMA } from "../../domain/accounts/scim/show.ts";

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
export const listOf = (resources: readonly object[], total: number, startIndex: number) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
  totalResults: total,
  startIndex,
  itemsPerPage: resources.length,
  Resources: resources,
});
