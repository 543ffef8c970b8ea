import { Migration } from "@mikro-orm/migrations";

/** Addresses and names of people that nothing reads any more: of SCIM, and of the payment provider. */
export class Migration20261130000201 extends Migration {
  override up(): void {
    this.addSql(
      `drop table if exists scim_group_members, scim_groups, scim_users, scim_tokens, scim_settings cascade`,
    );
    this.addSql(`alter table billing_customers drop column told_email`);
  }

  override down(): void {
    this.addSql(`alter table billing_customers add told_email text`);
  }
}
