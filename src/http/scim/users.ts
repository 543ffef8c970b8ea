import { emptyDraft, setAttributes } from "../../domain/accounts/scim/draft.ts";
import { patchDraft, readPatch } from "../../domain/accounts/scim/patch.ts";
import {
  changeScimUser,
  createScimUser,
  deleteScimUser,
  getScimUser,
  listScimUsers,
} from "../../domain/accounts/scim/users.ts";
import { provisioned, type ProvisioningParts } from "../../domain/accounts/scim/provisioned.ts";
import type { App } from "../../app.ts";
import type { Actor } from "../../domain/kernel/caller.ts";
import { route } from "../route.ts";
import { Body, common, listReply, nothing, Params, provisioning, replyOf, scopeOf } from "./common.ts";
import { SCIM_PATH } from "./discovery.ts";
import { filterOf, pageOf } from "./query.ts";

/** Bytes of a user, and of a PATCH of one. */
export const SCIM_USER_MAX_BYTES = 64 * 1_024;

const partsOf = ({ transact, transactAs, mail }: App, actor: Actor): ProvisioningParts => {
  return { transact, accounts: transactAs({ role: "accounts", by: actor }), mail };
};

export const scimUserRoutes = [
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/Users`,
    id: "scimListUsers",
    summary: "List users",
    run: async (app, { caller, query }) => {
      const wanted = { filter: filterOf(query), page: pageOf(query) };
      return listReply(
        await app.transact((work) => listScimUsers(work, scopeOf(app, caller), wanted)),
        query,
      );
    },
  }),
  route({
    ...provisioning,
    method: "post",
    path: `${SCIM_PATH}/Users`,
    id: "scimCreateUser",
    summary: "Create a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    body: Body,
    run: async (app, { actor, caller, query, body }) => {
      const draft = setAttributes(emptyDraft(true), body);
      const scope = scopeOf(app, caller);
      const made = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        createScimUser(work, scope, draft),
      );
      return replyOf(made, query, 201);
    },
  }),
  route({
    ...common,
    method: "get",
    path: `${SCIM_PATH}/Users/{id}`,
    id: "scimGetUser",
    summary: "Get a user",
    params: Params,
    run: async (app, { caller, params, query }) =>
      replyOf(await app.transact((work) => getScimUser(work, scopeOf(app, caller), params.id)), query),
  }),
  route({
    ...common,
    method: "put",
    path: `${SCIM_PATH}/Users/{id}`,
    id: "scimReplaceUser",
    summary: "Replace a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    params: Params,
    body: Body,
    run: async (app, { actor, caller, params, query, body, ifMatch }) => {
      const change = { id: params.id, ifMatch, mail: app.mail };
      const scope = scopeOf(app, caller);
      // Whoever leaves `active` out does not mean to let somebody in again.
      const changed = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        changeScimUser(work, scope, change, ({ active }) => setAttributes(emptyDraft(active), body)),
      );
      return replyOf(changed, query);
    },
  }),
  route({
    ...common,
    method: "patch",
    path: `${SCIM_PATH}/Users/{id}`,
    id: "scimPatchUser",
    summary: "Change a user",
    bodyLimit: SCIM_USER_MAX_BYTES,
    params: Params,
    body: Body,
    run: async (app, { actor, caller, params, query, body, ifMatch }) => {
      const operations = readPatch(body);
      const change = { id: params.id, ifMatch, mail: app.mail };
      const scope = scopeOf(app, caller);
      const changed = await provisioned(partsOf(app, actor), scope.tenantId, (work) =>
        changeScimUser(work, scope, change, (known) => patchDraft(known, operations)),
      );
      return replyOf(changed, query);
    },
  }),
  route({
    ...common,
    method: "delete",
    path: `${SCIM_PATH}/Users/{id}`,
    id: "scimDeleteUser",
    summary: "Delete a user",
    params: Params,
    run: async (app, { caller, params, ifMatch }) => {
      await app.transact((work) => deleteScimUser(work, scopeOf(app, caller), { id: params.id, ifMatch }));
      return nothing();
    },
  }),
];
