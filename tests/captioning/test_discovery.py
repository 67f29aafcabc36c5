from __future__ import annotations

import socket

from earmark.captioning.discovery import DEFAULT_ADDRESSES, EXTRAS, Discovery, doctor
from fault_server import fault_server
from vlm_server import vlm_server


def look(url, **options):
    return doctor({"here": url}, timeout=60.0, extras={}, **options)


def test_a_real_server_that_looks_at_pictures(vlm_url):
    (found,) = look(vlm_url)
    assert (found.kind, found.name, found.state) == ("server", "here", "ready")
    assert (found.address, found.model) == (vlm_url, "tiny")
    assert "tokens of picture counted" in found.detail


def test_a_real_server_that_does_not(gguf_pair):
    with vlm_server(gguf_pair[0].parent, pictures=False) as url:
        (found,) = look(url)
    assert found.state == "no pictures" and found.model == "tiny"
    assert "mmproj" in found.detail


def test_a_server_that_drops_pictures_in_silence():
    with fault_server(takes="", refusal=200) as server:
        (found,) = look(server.url)
    assert found.state == "no pictures" and "does not look at it" in found.detail


def test_a_server_that_is_unwell():
    with fault_server(then="500") as server:
        (found,) = look(server.url)
    assert found.state == "unwell" and "answered 500" in found.detail


def test_many_models_are_not_all_asked():
    with fault_server() as server:
        (found,) = look(server.url, models_asked=0)
        assert found == Discovery("server", "here", "not asked", server.url, "scripted")
        assert server.count() == 0


def test_a_port_where_nothing_listens_is_silent():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        (found,) = look(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert found.state == "silent" and found.detail == "no server on this port"


def test_a_program_that_is_no_model_server_is_unwell():
    with fault_server() as server:
        (found,) = look(server.url.removesuffix("/v1") + "/elsewhere")
    assert found.state == "unwell" and "404" in found.detail


def test_extras_are_installed_or_say_how_to_be():
    extras = {"local": ("numpy",), "dreams": ("numpy", "no_such_library")}
    here, away = doctor({}, extras=extras)
    assert (here.state, here.detail.split()[0]) == ("installed", "numpy")
    assert away.state == "missing"
    assert away.detail == "no no_such_library: pip install 'earmark[dreams]'"


def test_the_usual_places_are_distinct_and_the_extras_real():
    assert len(set(DEFAULT_ADDRESSES.values())) == len(DEFAULT_ADDRESSES)
    assert {"local", "transformers"} <= set(EXTRAS)
