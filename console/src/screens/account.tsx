import { Act } from "../ui/act.tsx";
import { Alert, Button, Code, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { callAny } from "../api/client.ts";
import { tell, useAct, useApi } from "../api/hooks.ts";
import { makePasskey } from "../api/passkeys.ts";
import { readAccount, signOut, useAccount } from "../api/session.ts";
import { words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Copyable, Section, When } from "../ui/small.tsx";
import { PlainTable } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";

export const AccountPage = () => {
  const { user } = useAccount();
  return (
    <Page title="Your account" about={user.email}>
      <Section title="Who you are">
        <OperationForm
          id="updateAccount"
          initial={{ name: user.name }}
          first={["name"]}
          onDone={() => void readAccount()}
        />
        {user.pendingEmail && (
          <Alert color="yellow">{`${user.pendingEmail} waits for the link of its mail.`}</Alert>
        )}
      </Section>
      {user.hasPassword && (
        <Section title="Password">
          <Group>
            <FormButton
              id="changePassword"
              label="Change the password"
              variant="default"
              about="Your other sessions end."
              submit="Change"
              done="Changed"
            />
          </Group>
        </Section>
      )}
      <SecondFactors />
      <Linked />
      <Sessions />
    </Page>
  );
};

const SecondFactors = () => {
  const factors = useApi("getSecondFactors");
  const { user } = useAccount();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [setup, setSetup] = useState<{ secret: string; otpauthUrl: string }>();
  const [recovery, setRecovery] = useState<string[]>();
  const { error, isBusy, send } = useSending();
  const proof = () => ({
    ...(password === "" ? {} : { currentPassword: password }),
    ...(code === "" || setup ? {} : { code: code.trim() }),
  });
  const after = async (answer: { recoveryCodes?: string[] }) => {
    if (answer.recoveryCodes) setRecovery(answer.recoveryCodes);
    setSetup(undefined);
    setCode("");
    setPassword("");
    await Promise.all([factors.refetch(), readAccount()]);
  };
  const begin = send(async () => setSetup(await callAny("setUpTotp", { body: proof() })));
  const enable = send(async () => after(await callAny("enableTotp", { body: { code: code.trim() } })));
  const disable = send(async () => after(await callAny("disableTotp", { body: proof() })));
  const replace = send(async () => after(await callAny("replaceRecoveryCodes", { body: proof() })));
  const addPasskey = send(async () => {
    const credential = await makePasskey(await callAny("startPasskey", { body: proof() }));
    await after(await callAny("addPasskey", { body: { name: nameOfDevice(), credential } }));
    tell("The passkey is added");
  });
  const remove = (passkeyId: string) =>
    send(async () => after(await callAny("removePasskey", { path: { passkeyId }, body: proof() })))();
  return (
    <Section title="Second factor">
      {recovery && (
        <Alert color="yellow" title="Your recovery codes">
          <Text size="sm">
            Each replaces your app once. Keep them where your phone is not: they are shown only here.
          </Text>
          <Copyable value={recovery.join("\n")} />
        </Alert>
      )}
      <Loaded query={factors} lines={3}>
        {(data) => (
          <Stack gap="sm">
            <Text size="sm">
              {data.enabled
                ? `It is on. ${data.recoveryCodesLeft} recovery codes are left.`
                : "A password alone protects your account. A second factor stops whoever has guessed or stolen it."}
            </Text>
            <Group align="flex-end">
              {user.hasPassword && (
                <TextInput
                  label="Your password"
                  type="password"
                  autoComplete="current-password"
                  value={password}
                  onChange={(event) => setPassword(event.currentTarget.value)}
                  w={220}
                />
              )}
              {(data.enabled || setup) && (
                <TextInput
                  label="Code of your app"
                  value={code}
                  onChange={(event) => setCode(event.currentTarget.value)}
                  autoComplete="one-time-code"
                  w={160}
                />
              )}
              {setup ? (
                <Button onClick={() => enable()} loading={isBusy}>
                  Switch it on
                </Button>
              ) : (
                <Button variant="default" onClick={() => begin()} loading={isBusy}>
                  {data.totp ? "Another app" : "Use an app"}
                </Button>
              )}
              {"PublicKeyCredential" in window && (
                <Button variant="default" onClick={() => addPasskey()}>
                  Add a passkey
                </Button>
              )}
              {data.enabled && (
                <Button variant="default" onClick={() => replace()}>
                  New recovery codes
                </Button>
              )}
              {data.totp && !data.required && (
                <Button variant="default" onClick={() => disable()}>
                  Switch the app off
                </Button>
              )}
            </Group>
            {setup && (
              <Alert color="teal" title="Add this to your app, then type its code above">
                <Text size="sm">Secret:</Text>
                <Copyable value={setup.secret} />
                <Text size="sm">Or open this link on the phone:</Text>
                <Copyable value={setup.otpauthUrl} />
              </Alert>
            )}
            {error !== undefined && <ErrorNote error={error} />}
            {data.passkeys.length > 0 && (
              <PlainTable
                name="Passkeys"
                rows={data.passkeys}
                columns={[
                  { title: "Passkey", cell: ({ name }) => name },
                  { title: "Added", cell: ({ createdAt }) => <When at={createdAt} /> },
                  { title: "Last used", cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
                ]}
                actions={({ id }) => (
                  <Button size="compact-xs" variant="default" onClick={() => remove(id)}>
                    Remove
                  </Button>
                )}
              />
            )}
          </Stack>
        )}
      </Loaded>
    </Section>
  );
};

const nameOfDevice = (): string => {
  const system = /Windows|Mac OS|Android|iPhone|iPad|Linux/.exec(navigator.userAgent)?.[0] ?? "this device";
  return `Passkey on ${system}`;
};

const Linked = () => {
  const providers = useApi("listOAuthProviders");
  const linked = useApi("listIdentities");
  const unlink = useAct("unlinkIdentity", { done: "Not linked any more" });
  const enabled = providers.data?.providers.filter((one) => one.enabled) ?? [];
  if (enabled.length === 0) return null;
  return (
    <Section title="Sign in with">
      {enabled.map(({ id, name }) => {
        const found = linked.data?.identities.find(({ provider }) => provider === id);
        return (
          <Group key={id}>
            <Text size="sm">{name}</Text>
            {found ? (
              <>
                <Code>{found.email}</Code>
                <Confirm
                  label="Unlink"
                  title={`Unlink ${name}?`}
                  onConfirm={() => unlink.mutateAsync({ path: { provider: id } } as never)}
                />
              </>
            ) : (
              <FormButton
                id="startOAuthLink"
                path={{ provider: id }}
                label="Link"
                size="xs"
                variant="default"
                initial={{ redirect_uri: `${location.origin}/console/account`, response_mode: "code" }}
                hidden={["redirect_uri", "response_mode", "passkey"]}
                submit="Go on"
                done=""
                onDone={({ authUrl }) => location.assign(authUrl)}
              />
            )}
          </Group>
        );
      })}
    </Section>
  );
};

const Sessions = () => {
  const sessions = useApi("listSessions", { query: { limit: 50 } });
  const logout = useAct("logout", { onDone: () => void signOut() });
  return (
    <Section
      title="Where you are signed in"
      actions={
        <Confirm
          label="Sign out everywhere"
          title="Sign out everywhere?"
          onConfirm={() => logout.mutateAsync({ body: { all: true } })}
        >
          You sign in again here, too.
        </Confirm>
      }
    >
      <Loaded query={sessions}>
        {({ data }) => (
          <PlainTable
            name="Sessions"
            rows={data}
            columns={[
              {
                title: "Browser",
                cell: ({ userAgent, current }) => (
                  <Text size="sm" maw={360} truncate>{`${current ? "This one: " : ""}${userAgent}`}</Text>
                ),
              },
              { title: "Address", cell: ({ ip }) => ip },
              { title: "By", cell: ({ method }) => words(method), isWideOnly: true },
              { title: "Last used", cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
            ]}
            actions={({ id, current }) =>
              !current && (
                <Act id="revokeSession" path={{ sessionId: id }} done="Ended">
                  End
                </Act>
              )
            }
          />
        )}
      </Loaded>
    </Section>
  );
};
