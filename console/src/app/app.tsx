import { Redirect, Route, Switch, useLocation, useSearch } from "wouter";
import { useSession } from "../api/hooks.ts";
import { Place, Waiting } from "../ui/page.tsx";
import { CompleteProfile, OPEN_SCREENS, Shell, SignIn, SuperAdmin } from "./routes.ts";

/** Whoever is not signed in signs in where they are, and then sees what the address says. */
const Signed = () => {
  const session = useSession();
  const [path] = useLocation();
  const to = new URLSearchParams(useSearch()).get("to") ?? "/";
  if (session.status === "loading") return <Waiting />;
  if (session.status === "out") return <SignIn why={session.why} />;
  if (session.status === "admin") return <Redirect to="/superadmin" />;
  // Never to another site: only a path of the console.
  if (path === "/login") return <Redirect to={/^\/(?![/\\])/.test(to) ? to : "/"} />;
  if (!session.account.user.profileCompleted) return <CompleteProfile />;
  return <Shell />;
};

export const App = () => {
  const [path] = useLocation();
  return (
    <Place key={path.split("/")[1]}>
      <Switch>
        {OPEN_SCREENS.map(({ path: at, component: Component }) => (
          <Route path={at} key={at}>
            <Component />
          </Route>
        ))}
        <Route path="/superadmin/*?">
          <SuperAdmin />
        </Route>
        <Route>
          <Signed />
        </Route>
      </Switch>
    </Place>
  );
};
