import type { User } from "./user.ts";

/** The body of a registration. */
export type Registration = {
  email: string;
  name: string;
  password: string;
  /** Name of the new tenant; the user's name when absent. */
  tenantName?: string | undefined;
  /** Tenant to join. */
  tenantId?: string | undefined;
  /** From the mail of an invitation; it determines the tenant and the role. */
  invitationToken?: string | undefined;
  captchaToken?: string | undefined;
  /** Invisible to people; only a bot fills it in. */
  website?: string | undefined;
};

/** The user in the response to a registration. */
export type RegisteredUser = {
  id: string;
  email: string;
  name: string;
  tenantId: string;
  role: User["role"];
  emailVerified: boolean;
};
