import { sql } from "kysely";
import { anAdmin } from "../app/admin.ts";
import { startApp, type Tenant } from "../app/app.ts";
import { must } from "../http/client.ts";
import { aMember } from "../app/member.ts";
import { unique } from "./bodies.ts";
import type { Call, Known } from "./operations.ts";

const reason = { reason: "Swept" };

/** A tenant of its own, so that the side's own stays as it is. */
const aTenantThatIs = async (status: string): Promise<string> => {
  const { app } = await startApp();
  return app.transact(async ({ db, now }) => {
    const at = now.toISOString();
    const { rows } = await sql<{ id: string }>`
      insert into tenants (id, name, approval_status, plan, created_at, updated_at)
      values (gen_random_uuid(), 'Swept', ${status}, 'FREE', ${at}::timestamptz, ${at}::timestamptz)
      returning id`.execute(db);
    return rows[0]!.id;
  });
};

/** There may be only so many, and every sweep makes some. */
const endPlatformTokens = async (): Promise<void> => {
  const { app } = await startApp();
  await app.transact(({ db }) =>
    sql`update platform_tokens set revoked_at = now() where revoked_at is null`.execute(db),
  );
};

const ofTenant = (step: string, status: string, body: unknown = {}): Known => ({
  call: async () => ({ path: `/superadmin/tenants/${await aTenantThatIs(status)}/${step}`, body }),
});

const aUser = async ({ tenantId }: Tenant): Promise<string> =>
  (await aMember(await startApp(), tenantId, "VIEWER")).userId;

const post = async (path: string, body: unknown) => {
  const api = await startApp();
  const { token } = await anAdmin(api);
  return api.post(`/api/v1${path}`, body, { token });
};

/** A mail that has failed and may be sent again. */
const aFailedMail = async ({ tenantId, email }: Tenant): Promise<string> => {
  const { app } = await startApp();
  return app.transact(async (work) => {
    const request = { template: "password-changed", to: email, values: { name: unique("Ada") } } as const;
    await app.mail.queue(work, { ...request, tenantId, userId: null });
    const { rows } = await sql<{ id: string }>`
      update email_logs set status = 'FAILED' where tenant_id = ${tenantId}::uuid and "to" = ${email}
        and id = (select max(id::text)::uuid from email_logs where tenant_id = ${tenantId}::uuid)
      returning id`.execute(work.db);
    const [row] = rows;
    const at = work.now.toISOString();
    await sql`update email_outbox set keep_until = ${at}::timestamptz + interval '1 day',
      next_attempt_at = 'infinity' where log_id = ${row!.id}::uuid`.execute(work.db);
    return row!.id;
  });
};

const aPost = (): { slug: string; title: string; postDate: string } => ({
  slug: unique("post")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-"),
  title: "A post",
  postDate: "2026-03-01",
});

const get = (path: string): Known => ({ call: () => ({ path }) });

export const adminOperations: Record<string, Known> = {
  superadminLogin: {
    call: async () => {
      const { email, password } = await anAdmin(await startApp());
      return { path: "/superadmin/auth/login", body: { email, password } };
    },
  },
  superadminLogout: { call: () => ({ path: "/superadmin/auth/logout", body: {} }) },
  superadminChangePassword: {
    call: async (): Promise<Call> => {
      const { password, token } = await anAdmin(await startApp());
      const body = { currentPassword: password, newPassword: "Another-Root-88" };
      return { path: "/superadmin/auth/change-password", body, token };
    },
  },
  getSuperadmin: get("/superadmin/me"),

  createPlatformToken: {
    call: async () => {
      await endPlatformTokens();
      return { path: "/superadmin/tokens", body: { name: "A machine", scopes: ["blog:sync"] } };
    },
    also: [() => ({ name: "Brief", scopes: ["blog:sync"], expiresAt: "2999-01-01T00:00:00Z" })],
  },
  listPlatformTokens: get("/superadmin/tokens"),
  revokePlatformToken: {
    call: async () => {
      await endPlatformTokens();
      const made = must(await post("/superadmin/tokens", { name: "A machine", scopes: ["blog:sync"] }), 201);
      return { path: `/superadmin/tokens/${made.id}` };
    },
  },

  listPlatformTenants: get("/superadmin/tenants"),
  getPlatformTenant: { call: ({ tenant }) => ({ path: `/superadmin/tenants/${tenant.tenantId}` }) },
  updatePlatformTenant: {
    call: async () => ({
      path: `/superadmin/tenants/${await aTenantThatIs("APPROVED")}`,
      body: {
        plan: "PRO",
        planOverrides: { requestsPerMinute: 5_000, members: "unlimited", projects: null },
      },
    }),
  },
  approveTenant: ofTenant("approve", "PENDING"),
  rejectTenant: ofTenant("reject", "PENDING", reason),
  suspendTenant: ofTenant("suspend", "APPROVED", reason),
  unsuspendTenant: ofTenant("unsuspend", "SUSPENDED"),

  listPlatformUsers: get("/superadmin/users"),
  getPlatformUser: { call: ({ tenant }) => ({ path: `/superadmin/users/${tenant.userId}` }) },
  disableUser: {
    call: async ({ tenant }) => ({
      path: `/superadmin/users/${await aUser(tenant)}/disable`,
      body: reason,
    }),
  },
  enableUser: {
    call: async ({ tenant }) => {
      const userId = await aUser(tenant);
      must(await post(`/superadmin/users/${userId}/disable`, reason), 200);
      return { path: `/superadmin/users/${userId}/enable`, body: {} };
    },
  },

  listPlatformAuditLog: get("/superadmin/audit-log"),
  listPlatformEmailLogs: get("/superadmin/email-logs"),
  resendEmail: {
    call: async ({ tenant }) => ({
      path: `/superadmin/email-logs/${await aFailedMail(tenant)}/resend`,
      body: {},
    }),
  },
  getPlatformStats: get("/superadmin/stats"),

  syncBlogPosts: {
    call: () => ({ path: "/superadmin/blog-posts/sync", body: { posts: [aPost()] } }),
    also: [
      () => ({
        posts: [{ ...aPost(), tags: ["a"], featured: true, draft: true, excerpt: "Short", author: "Ada" }],
      }),
    ],
  },
  listBlogPosts: get("/blog-posts"),
  getBlogPost: {
    call: async () => {
      const one = aPost();
      must(await post("/superadmin/blog-posts/sync", { posts: [one] }), 200);
      return { path: `/blog-posts/${one.slug}` };
    },
  },
};
