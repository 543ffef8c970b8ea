import { route } from "../route.ts";
import { baseOf, common, listAll, Params } from "./common.ts";
import { oneOf, providerConfig, resourceTypes, SCIM_PATH, schemas } from "./discovery.ts";
import { scimGroupRoutes } from "./groups.ts";
import { scimUserRoutes } from "./users.ts";

const discovery = [
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/ServiceProviderConfig`,
    id: "scimGetProviderConfig",
    summary: "Get what the service can do",
    run: async (app) => providerConfig(baseOf(app)),
  }),
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/ResourceTypes`,
    id: "scimListResourceTypes",
    summary: "List kinds of resources",
    run: async (app) => listAll(resourceTypes(baseOf(app))),
  }),
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/ResourceTypes/{id}`,
    id: "scimGetResourceType",
    summary: "Get a kind of resources",
    params: Params,
    run: async (app, { params }) => oneOf(resourceTypes(baseOf(app)), params.id),
  }),
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/Schemas`,
    id: "scimListSchemas",
    summary: "List schemas",
    run: async (app) => listAll(schemas(baseOf(app))),
  }),
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/Schemas/{id}`,
    id: "scimGetSchema",
    summary: "Get a schema",
    params: Params,
    run: async (app, { params }) => oneOf(schemas(baseOf(app)), params.id),
  }),
];

/** The operations of SCIM 2.0, which describes itself: they are not in /openapi.json. */
export const scimRoutes = [...scimUserRoutes, ...scimGroupRoutes, ...discovery];
