"""Which role does each verb need, and what do tokens and claims add up to?"""

from __future__ import annotations

import pytest

from spec_kit_memory import requests
from spec_kit_memory.errors import AccessDenied, BadParameter, Invalid, MissingParameter
from spec_kit_memory.parameters import Request
from spec_kit_memory.team.rights import (
    NEEDED,
    Access,
    Role,
    User,
    needed,
    read_grants,
    role_of_scopes,
    roles_by_claims,
    scopes_of,
)

ANA = User("local", "ana")


def test_every_verb_needs_a_right() -> None:
    assert requests.SearchRequest.verb == "search"
    # Tests of the parameters make requests of their own.
    verbs = {kind.verb for kind in Request.__subclasses__() if kind.__module__ == requests.__name__}
    assert set(NEEDED) == verbs


def test_some_arguments_are_an_admins() -> None:
    assert needed(requests.HealthRequest()) is Role.READER
    assert needed(requests.HealthRequest(repair=True)) is Role.ADMIN
    assert needed(requests.IndexRequest()) is Role.WRITER
    assert needed(requests.IndexRequest(force=True)) is Role.ADMIN


@pytest.mark.parametrize(
    ("scopes", "role"),
    [
        ([], None),
        (["memory:write"], None),
        (["memory:admin"], None),
        (["memory:read"], Role.READER),
        (["memory:read", "memory:admin"], Role.READER),
        (["memory:write", "memory:read"], Role.WRITER),
        (["memory:read", "memory:write", "memory:admin", "openid"], Role.ADMIN),
    ],
)
def test_scopes_allow_what_all_of_them_allow_together(scopes: list[str], role: Role | None) -> None:
    assert role_of_scopes(scopes) is role
    assert role_of_scopes(scopes_of(role)) is role


@pytest.mark.parametrize("ceiling", [*Role, None])
@pytest.mark.parametrize("own", list(Role))
def test_the_lesser_of_scope_and_role_holds(own: Role, ceiling: Role | None) -> None:
    access = Access(ANA, {"shop": own}, ceiling=ceiling)
    assert access.role("shop") == (None if ceiling is None else min(own, ceiling))
    for wanted, request in (
        (Role.READER, requests.ListRequest()),
        (Role.WRITER, requests.UndoRequest()),
        (Role.ADMIN, requests.CheckpointDeleteRequest(name="x")),
    ):
        if ceiling is not None and min(own, ceiling) >= wanted:
            access.require("shop", request)
        else:
            with pytest.raises((AccessDenied, BadParameter)):
                access.require("shop", request)


def test_one_who_may_use_several_projects_names_one() -> None:
    access = Access(ANA, {"shop": Role.READER, "bank": Role.WRITER})
    with pytest.raises(MissingParameter) as caught:
        access.choose(None)
    assert caught.value.code == "E031"
    assert caught.value.details["projects"] == ["bank", "shop"]
    assert access.choose("bank") == "bank"
    assert Access(ANA, {"shop": Role.READER}).choose(None) == "shop"
    with pytest.raises(AccessDenied):
        Access(ANA).choose(None)


def test_a_project_of_others_is_refused_as_one_that_is_not_there() -> None:
    access = Access(ANA, {"shop": Role.READER})
    messages = []
    for name in ("secret", "absent"):
        with pytest.raises(BadParameter) as caught:
            access.choose(name)
        messages.append((caught.value.message.replace(name, "X"), caught.value.hint, caught.value.details))
    assert messages[0] == messages[1]


def test_several_projects_narrow_and_never_widen() -> None:
    access = Access(ANA, {"shop": Role.READER, "bank": Role.READER}, ceiling=Role.READER)
    assert access.choose_several(["all"]) == ["bank", "shop"]
    assert access.choose_several(["shop", "shop"]) == ["shop"]
    with pytest.raises(BadParameter):
        access.choose_several(["shop", "secret"])


def test_claims_give_the_highest_role_in_the_projects_that_there_are() -> None:
    grants = read_grants(
        [
            {"claim": "groups", "value": "devs", "project": "shop", "role": "writer"},
            {"claim": "groups", "value": "all", "project": "*", "role": "reader"},
            {"claim": "sub", "value": "ana", "project": "bank", "role": "admin"},
            {"claim": "groups", "value": "devs", "project": "gone", "role": "admin"},
        ]
    )
    message = roles_by_claims(grants, {"groups": ["devs", "all"], "sub": "ana"}, ["shop", "bank"])
    assert message == {"shop": Role.WRITER, "bank": Role.ADMIN}
    assert roles_by_claims(grants, {"groups": "devsandmore"}, ["shop"]) == {}
    assert roles_by_claims(grants, {"groups": {"devs": True}}, ["shop"]) == {}


def test_every_problem_of_a_mapping_is_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        read_grants([{"claim": "x"}, {"claim": "a", "value": "b", "project": "c", "role": "owner"}, 7])
    assert str(caught.value.details["problems"]).count("entry") == 3
    with pytest.raises(Invalid):
        read_grants({"groups": "devs"})


def test_two_issuers_may_know_two_people_by_one_name() -> None:
    assert User("local", "ana").id != User("https://issuer.example", "ana").id
    assert str(User("https://issuer.example", "ana@work")) == "ana@work@https://issuer.example"
