import { PlatformAdmin } from "../accounts/admin/platform-admin.ts";
import { PlatformToken } from "../accounts/admin/platform-token.ts";
import { ApiKey } from "../accounts/api-keys/api-key.ts";
import { Session } from "../accounts/auth/session.ts";
import { User } from "../accounts/auth/user.ts";
import { BlogPost } from "../accounts/blog/blog-post.ts";
import { Definition } from "../economy/definitions/definition.ts";
import { EmailLog } from "../accounts/email/email-log.ts";
import { Leaderboard } from "../progression/leaderboard.ts";
import { Identity } from "../accounts/oauth/identity.ts";
import { Player } from "../players/player.ts";
import { Project } from "../accounts/projects/project.ts";
import { IpBlock } from "../accounts/rate-limits/ip-block.ts";
import { Rule, RuleVersion } from "../rules/rule.ts";
import { Invitation } from "../accounts/team/invitation.ts";
import { SsoConfiguration } from "../accounts/sso/configuration.ts";
import { SsoDomain } from "../accounts/sso/domain.ts";
import { Tenant } from "../accounts/tenants/tenant.ts";
import { Webhook } from "../delivery/webhooks/webhook.ts";

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
