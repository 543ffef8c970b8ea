import { PlatformAdmin, PlatformToken } from "../accounts/admin/admins.ts";
import { ApiKey } from "../accounts/api-keys/api-key.ts";
import { Session } from "../accounts/auth/tokens.ts";
import { User } from "../accounts/auth/user.ts";
import { BlogPost } from "../accounts/blog/sync.ts";
import { Definition } from "../economy/definitions/definitions.ts";
import { EmailLog } from "../accounts/email/mail.ts";
import { Leaderboard } from "../progression/load-plan.ts";
import { Identity } from "../accounts/oauth/provider.ts";
import { Player } from "../players/player.ts";
import { Project } from "../accounts/projects/project.ts";
import { IpBlock } from "../accounts/rate-limits/ip-blocks.ts";
import { Rule, RuleVersion } from "../rules/rules.ts";
import { Invitation } from "../accounts/team/accept.ts";
import { SsoConfiguration } from "../accounts/sso/configuration.ts";
import { SsoDomain } from "../accounts/sso/domains.ts";
import { Tenant } from "../accounts/tenants/tenant.ts";
import { Webhook } from "../delivery/webhooks/registration.ts";

/** All entities of the EntityManager; add a new one here. */
export const entities = [
  Tenant,
  User,
  Session,
  Invitation,
  Identity,
  Project,
  ApiKey,
  Player,
  Rule,
  RuleVersion,
  Leaderboard,
  Definition,
  IpBlock,
  PlatformAdmin,
  PlatformToken,
  EmailLog,
  BlogPost,
  Webhook,
  SsoConfiguration,
  SsoDomain,
];
