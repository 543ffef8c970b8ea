import { z } from "zod";
import type { App } from "../../app.ts";
import { type Caller, providerOf } from "../../domain/kernel/caller.ts";
import type { Resource } from "../../domain/accounts/scim/show.ts";
import type { ScimScope } from "../../domain/accounts/scim/users.ts";
import { Reply } from "../route.ts";
import { listOf, SCIM_PATH } from "./discovery.ts";
import { type ListParameters, ListQuery, pageOf, selectionOf } from "./query.ts";

/**
 * What all operations of SCIM have in common. They are open whatever the plan: who leaves a company must not
 * keep an account because of it.
 */
export const common = {
  tag: "SCIM",
  project: "none",
  access: { scim: true },
  isScim: true,
  takesNoIdempotencyKey: true,
  query: ListQuery,
  response: z.unknown(),
} as const;

/** What lets people in, or changes what they may. */
export const provisioning = { ...common, access: { scim: true, needs: { feature: "sso" } } } as const;

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
