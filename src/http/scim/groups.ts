import { patchGroup, readGroup, readPatch } from "../../domain/accounts/scim/draft.ts";
import {
  changeScimGroup,
  createScimGroup,
  deleteScimGroup,
  getScimGroup,
  listScimGroups,
} from "../../domain/accounts/scim/groups.ts";

import {
  baseOf,
  Body,
  common,
  filterOf,
  listAll,
  listReply,
  nothing,
  oneOf,
  pageOf,
  Params,
  providerConfig,
  provisioning,
  replyOf,
  resourceTypes,
  schemas,
  SCIM_PATH,
  scimUserRoutes,
  scopeOf,
  selectionOf,
} from "./discovery.ts";

const scimGroupRoutes = [
  common.get(`${SCIM_PATH}/Groups`, "scimListGroups", {
    summary: "List groups",
    outside: async (app, { caller, query }) => {
      const withMembers = selectionOf(query).has("members");
      const wanted = { filter: filterOf(query), page: pageOf(query), withMembers };
      return listReply(
        await app.transact((work) => listScimGroups(work, scopeOf(app, caller), wanted)),
        query,
      );
    },
  }),
  provisioning.post(`${SCIM_PATH}/Groups`, "scimCreateGroup", {
    summary: "Create a group",
    body: Body,
    outside: async (app, { caller, query, body }) => {
      const draft = readGroup(body);
      const made = await app.transact((work) => createScimGroup(work, scopeOf(app, caller), draft));
      return replyOf(made, query, 201);
    },
  }),
  common.get(`${SCIM_PATH}/Groups/{id}`, "scimGetGroup", {
    summary: "Get a group",
    params: Params,
    outside: async (app, { caller, params, query }) => {
      const withMembers = selectionOf(query).has("members");
      const group = await app.transact((work) =>
        getScimGroup(work, scopeOf(app, caller), params.id, withMembers),
      );
      return replyOf(group, query);
    },
  }),
  provisioning.put(`${SCIM_PATH}/Groups/{id}`, "scimReplaceGroup", {
    summary: "Replace a group",
    params: Params,
    body: Body,
    outside: async (app, { caller, params, query, body, ifMatch }) => {
      const draft = readGroup(body);
      const scope = scopeOf(app, caller);
      const changed = await app.transact(async (work) => {
        await changeScimGroup(work, scope, { id: params.id, ifMatch }, () => draft);
        return getScimGroup(work, scope, params.id, selectionOf(query).has("members"));
      });
      return replyOf(changed, query);
    },
  }),
  provisioning.patch(`${SCIM_PATH}/Groups/{id}`, "scimPatchGroup", {
    summary: "Change a group",
    params: Params,
    body: Body,
    outside: async (app, { caller, params, body, ifMatch }) => {
      const operations = readPatch(body);
      await app.transact((work) =>
        changeScimGroup(work, scopeOf(app, caller), { id: params.id, ifMatch }, (known) =>
          patchGroup(known, operations),
        ),
      );
      // With thousands of members the group is not sent back for a change of one.
      return nothing();
    },
  }),
  provisioning.delete(`${SCIM_PATH}/Groups/{id}`, "scimDeleteGroup", {
    summary: "Delete a group",
    params: Params,
    outside: async (app, { caller, params, ifMatch }) => {
      await app.transact((work) => deleteScimGroup(work, scopeOf(app, caller), { id: params.id, ifMatch }));
      return nothing();
    },
  }),
];

const discovery = [
  common.get(`${SCIM_PATH}/ServiceProviderConfig`, "scimGetProviderConfig", {
    summary: "Get what the service can do",
    outside: async (app) => providerConfig(baseOf(app)),
  }),
  common.get(`${SCIM_PATH}/ResourceTypes`, "scimListResourceTypes", {
    summary: "List kinds of resources",
    outside: async (app) => listAll(resourceTypes(baseOf(app))),
  }),
  common.get(`${SCIM_PATH}/ResourceTypes/{id}`, "scimGetResourceType", {
    summary: "Get a kind of resources",
    params: Params,
    outside: async (app, { params }) => oneOf(resourceTypes(baseOf(app)), params.id),
  }),
  common.get(`${SCIM_PATH}/Schemas`, "scimListSchemas", {
    summary: "List schemas",
    outside: async (app) => listAll(schemas(baseOf(app))),
  }),
  common.get(`${SCIM_PATH}/Schemas/{id}`, "scimGetSchema", {
    summary: "Get a schema",
    params: Params,
    outside: async (app, { params }) => oneOf(schemas(baseOf(app)), params.id),
  }),
];

/** The operations of SCIM 2.0, which describes itself: they are not in /openapi.json. */
export const scimRoutes = [...scimUserRoutes, ...scimGroupRoutes, ...discovery];
